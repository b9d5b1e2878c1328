//! Numbers that look random and are the same for each seed.

/// A sequence of such numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // Seeds that are close together begin alike.
        for _ in 0..4 {
            dice.next();
        }
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `sides`, 0 if there are none.
    ///
    /// # Panics
    /// Never: 31 bits fit.
    pub fn roll(&mut self, sides: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits fit") % sides.max(1)
    }

    /// Whether something happens that happens once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.roll(times) == 0
    }

    /// One of several.
    pub fn one_of<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.roll(of.len()))
    }
}

//! The pauses between writes of progress.

use super::*;

#[test]
fn progress_is_due_when_the_pause_ends() {
    let (mut queue, now) = (queue(10), Instant::now());
    add_progress(&mut queue, key("a"), now);
    for (paused_until, due) in [(None, MS), (Some(now), MS), (Some(now + MS * 2), MS * 2)] {
        assert_eq!(queue.next_due(paused_until), Some(now + due));
    }
    let pause = Some(now + MS * 2);
    assert_eq!(names_until(&mut queue, now + MS, pause), Vec::<String>::new());
    assert_eq!(names_until(&mut queue, now + MS * 2, pause), ["a"]);
}

#[test]
fn a_pause_delays_no_progress_of_few_keys() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.policy.progress_burst = 2;
    for name in ["a", "b", "c"] {
        add_progress(&mut queue, key(name), now);
    }
    let pause = Some(now + MS * 50);
    assert_eq!(queue.next_due(pause), pause);
    assert_eq!(names_until(&mut queue, now + MS, pause), Vec::<String>::new());
    queue.remove(&key("b"));
    assert_eq!(queue.next_due(pause), Some(now + MS));
    assert_eq!(names_until(&mut queue, now + MS, pause), ["a", "c"]);
}

#[test]
fn a_pause_holds_progress_until_its_own_deadline() {
    let (mut queue, now) = (queue(10), Instant::now());
    queue.add_after(key("late"), progress(MS, MS * 2000), now);
    queue.add_after(key("early"), progress(MS * 2, MS * 700), now);
    queue.add_after(key("early"), progress(MS * 3, MS * 800), now);
    assert_eq!(queue.next_due(Some(now + MS * 600)), Some(now + MS * 600));
    assert_eq!(
        queue.next_due(Some(now + MS * 1000)),
        Some(now + MS * 700),
        "the deadline comes before the end of the pause"
    );
    assert_eq!(names_during_pause(&mut queue, now + MS * 699), Vec::<String>::new());
    assert_eq!(names_during_pause(&mut queue, now + MS * 700), ["early"]);
    queue.done(&key("early"), ReconcileDuration::default(), now + MS * 700);
    assert_eq!(names_during_pause(&mut queue, now + MS * 2000), ["late"]);
    assert!(!has_delayed_key(&queue));
}

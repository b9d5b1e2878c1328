//! What is done to objects before they are acted on. Every service applies the same rules to what it reads, so that an
//! object stored without the webhook is understood the same way.

pub mod default;

//! Settings: named JSON values with a transactional update, and the typed layer that the controller uses.
//! It must never know what a setting means; that is in `records`.

use std::future::Future;

use async_trait::async_trait;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::PortError;

/// What an update decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Leave the setting as it is: nothing is written.
    Keep,
    /// Write this value.
    Set(Value),
    /// Remove the setting.
    Delete,
}

/// Decides a change from the present value. It runs while the name is locked, so it computes and never waits.
pub type Decide<'f> = Box<dyn FnOnce(Option<Value>) -> Change + Send + 'f>;

/// Settings storage of the home. JSON `null` is a value like any other and differs from an absent setting.
#[async_trait]
pub trait Settings: Send + Sync {
    /// The value, or `None` when there is none of this name.
    async fn get(&self, name: &str) -> Result<Option<Value>, PortError>;

    /// Reads, decides and writes one name as one transaction; updates of one name never interleave. Durable when it
    /// returns. After an error nothing is changed.
    async fn update<'f>(&self, name: &str, decide: Decide<'f>) -> Result<(), PortError>;

    /// Writes or replaces; durable when it returns.
    async fn set(&self, name: &str, value: Value) -> Result<(), PortError>;

    /// Removes; durable when it returns. Removing what is not there succeeds.
    async fn delete(&self, name: &str) -> Result<(), PortError>;
}

/// The typed layer over any [`Settings`].
pub trait SettingsExt: Settings {
    /// Reads a setting as `T`.
    ///
    /// # Errors
    /// [`PortError::SettingInvalid`] when the value has another form, and those of [`Settings::get`].
    fn get_as<T: DeserializeOwned>(&self, name: &str) -> impl Future<Output = Result<Option<T>, PortError>> + Send {
        async move { self.get(name).await?.map(|value| decode(name, value)).transpose() }
    }

    /// Writes a setting.
    ///
    /// # Errors
    /// Those of [`Settings::set`].
    fn set_as<T: Serialize + Sync>(&self, name: &str, value: &T) -> impl Future<Output = Result<(), PortError>> + Send {
        async move { self.set(name, encode(name, value)?).await }
    }

    /// Transactional update of one setting. `change` gets the present value and returns the new one (`None` removes
    /// it) with a result for the caller; its error leaves the setting as it was and is passed on. An equal value is
    /// not written again.
    ///
    /// # Errors
    /// That of `change`, and those of the store by way of `E::from`.
    fn update_as<T, R, E>(
        &self,
        name: &str,
        change: impl FnOnce(Option<T>) -> Result<(Option<T>, R), E> + Send,
    ) -> impl Future<Output = Result<R, E>> + Send
    where
        T: Serialize + DeserializeOwned,
        R: Send,
        E: From<PortError> + Send,
    {
        async move {
            let mut answer = None;
            let decide: Decide<'_> = Box::new(|present| match decide(name, present, change) {
                Ok((decided, result)) => {
                    answer = Some(Ok(result));
                    decided
                }
                Err(error) => {
                    answer = Some(Err(error));
                    Change::Keep
                }
            });
            self.update(name, decide).await?;
            // A store that succeeds without asking has broken the contract; the caller must not take it for success.
            answer.unwrap_or_else(|| Err(PortError::Unavailable("the update was not carried out".to_owned()).into()))
        }
    }

    /// Transactional update of a setting that is a list; an absent setting is an empty list.
    ///
    /// # Errors
    /// As for [`SettingsExt::update_as`].
    fn update_list<T, R, E>(
        &self,
        name: &str,
        change: impl FnOnce(&mut Vec<T>) -> Result<R, E> + Send,
    ) -> impl Future<Output = Result<R, E>> + Send
    where
        T: Serialize + DeserializeOwned,
        R: Send,
        E: From<PortError> + Send,
    {
        self.update_as(name, |present: Option<Vec<T>>| {
            let absent = present.is_none();
            let mut list = present.unwrap_or_default();
            let result = change(&mut list)?;
            let keep_absent = absent && list.is_empty();
            Ok((if keep_absent { None } else { Some(list) }, result))
        })
    }
}

impl<S: Settings + ?Sized> SettingsExt for S {}

fn decide<T, R, E>(
    name: &str,
    present: Option<Value>,
    change: impl FnOnce(Option<T>) -> Result<(Option<T>, R), E>,
) -> Result<(Change, R), E>
where
    T: Serialize + DeserializeOwned,
    E: From<PortError>,
{
    let typed = present.as_ref().map(|value| decode(name, value)).transpose()?;
    let (next, result) = change(typed)?;
    let next = next.map(|value| encode(name, &value)).transpose()?;
    let decided = match next {
        next if next == present => Change::Keep,
        Some(value) => Change::Set(value),
        None => Change::Delete,
    };
    Ok((decided, result))
}

fn decode<'de, T: DeserializeOwned>(
    name: &str,
    value: impl serde::Deserializer<'de, Error = serde_json::Error>,
) -> Result<T, PortError> {
    T::deserialize(value).map_err(|error| PortError::SettingInvalid {
        name: name.to_owned(),
        reason: shape_of(&error),
    })
}

/// serde quotes the offending text; a setting's content stays out of errors, so only the kind of mistake is named.
fn shape_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.find("missing field").or_else(|| text.find("duplicate field")) {
        Some(_) => text,
        None => "a field has the wrong type or an unknown word".to_owned(),
    }
}

fn encode<T: Serialize>(name: &str, value: &T) -> Result<Value, PortError> {
    serde_json::to_value(value).map_err(|error| PortError::ValueInvalid {
        name: name.to_owned(),
        reason: error.to_string(),
    })
}

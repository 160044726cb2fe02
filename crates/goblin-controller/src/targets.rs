//! API targets: a list that operators keep. Nothing is dispatched by it.

use crate::Controller;
use crate::error::{ControllerError, Named};
use goblin_ports::{SettingsExt, Target, setting};
use goblin_protocol::id::valid_gateway_id;
use serde_json::Map;
use url::Url;

/// Longest name, in characters.
const NAME_MAX: usize = 255;

/// Longest base URL, in bytes.
const BASE_URL_MAX: usize = 2048;

/// A target as an operator writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetInput {
    /// Name for people.
    pub name: String,
    /// Where it is.
    pub base_url: String,
    /// Whether it may be used.
    pub enabled: bool,
}

impl TargetInput {
    /// The target that this stands for.
    fn checked(self, id: &str) -> Result<Target, ControllerError> {
        check_id(id)?;
        Ok(Target {
            id: id.to_owned(),
            name: checked_name(&self.name, Named::Target)?,
            base_url: checked_url(&self.base_url)?,
            enabled: self.enabled,
            other: Map::new(),
        })
    }
}

impl Controller {
    /// The targets, in the order in which they were added.
    ///
    /// # Errors
    /// Those of the home.
    pub async fn targets(&self) -> Result<Vec<Target>, ControllerError> {
        let targets = self.shared().settings.get_as(setting::TARGETS).await?;
        Ok(targets.unwrap_or_default())
    }

    /// Adds a target.
    ///
    /// # Errors
    /// [`ControllerError::TargetIdInvalid`], [`ControllerError::NameRequired`], [`ControllerError::NameTooLong`],
    /// [`ControllerError::TargetBaseUrlInvalid`], [`ControllerError::TargetExists`], and those of the home.
    pub async fn add_target(&self, id: &str, input: TargetInput) -> Result<Target, ControllerError> {
        let target = input.checked(id)?;
        self.shared()
            .settings
            .update_list(setting::TARGETS, |list: &mut Vec<Target>| {
                if list.iter().any(|known| known.id == target.id) {
                    return Err(ControllerError::TargetExists);
                }
                list.push(target.clone());
                Ok(target)
            })
            .await
    }

    /// Replaces a target; members of the stored one that this version does not know stay.
    ///
    /// # Errors
    /// As for [`Controller::add_target`], with [`ControllerError::TargetNotFound`] for one that is not there.
    pub async fn replace_target(&self, id: &str, input: TargetInput) -> Result<Target, ControllerError> {
        let mut target = input.checked(id)?;
        self.shared()
            .settings
            .update_list(setting::TARGETS, |list: &mut Vec<Target>| {
                let known = list.iter_mut().find(|known| known.id == target.id);
                let known = known.ok_or(ControllerError::TargetNotFound)?;
                target.other = std::mem::take(&mut known.other);
                *known = target.clone();
                Ok(target)
            })
            .await
    }

    /// Removes a target.
    ///
    /// # Errors
    /// [`ControllerError::TargetIdInvalid`], [`ControllerError::TargetNotFound`], and those of the home.
    pub async fn remove_target(&self, id: &str) -> Result<(), ControllerError> {
        check_id(id)?;
        self.shared()
            .settings
            .update_list(setting::TARGETS, |list: &mut Vec<Target>| {
                let place = list.iter().position(|known| known.id == id);
                list.remove(place.ok_or(ControllerError::TargetNotFound)?);
                Ok(())
            })
            .await
    }
}

fn check_id(id: &str) -> Result<(), ControllerError> {
    if valid_gateway_id(id) {
        Ok(())
    } else {
        Err(ControllerError::TargetIdInvalid)
    }
}

/// A name without blanks around it.
pub(crate) fn checked_name(name: &str, of: Named) -> Result<String, ControllerError> {
    let name = name.trim();
    if name.is_empty() {
        return Err(ControllerError::NameRequired(of));
    }
    if name.chars().count() > NAME_MAX {
        return Err(ControllerError::NameTooLong(of));
    }
    Ok(name.to_owned())
}

/// True when there is a user in the text, if only an empty one, which the parsed address does not show.
fn names_user(text: &str) -> bool {
    let authority = text
        .split_once(':')
        .map_or(text, |(_, rest)| rest.trim_start_matches(['/', '\\']));
    authority
        .split(['/', '\\', '?', '#'])
        .next()
        .is_some_and(|authority| authority.contains('@'))
}

/// The URL in its normal form, without trailing slashes.
fn checked_url(text: &str) -> Result<String, ControllerError> {
    let invalid = || ControllerError::TargetBaseUrlInvalid;
    if text.len() > BASE_URL_MAX {
        return Err(invalid());
    }
    let url = Url::parse(text).map_err(|_| invalid())?;
    let plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && !names_user(text)
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    // Escaping can make it longer.
    if !plain || url.as_str().len() > BASE_URL_MAX {
        return Err(invalid());
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

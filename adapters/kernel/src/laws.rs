//! The laws in the object, and loading one.

use libbpf_rs::{MapCore, ObjectBuilder, OpenObject, set_print};
use manyway_control::LawSpec;

use crate::Failure;
use crate::loaded::{self, LAWS};

/// Built by `bpf/build` from the source beside it.
const OBJECT: &[u8] = include_bytes!("../bpf/laws.bpf.o");

/// The longest name of a congestion control (`TCP_CA_NAME_MAX` with its final 0).
const LONGEST_NAME: usize = 15;

/// `ONE_BITS` of laws.h.
const ONE: f64 = (1_u64 << 40) as f64;

/// Makes the law a congestion control of the kernel's, called `name`.
///
/// Until the last step the kernel knows it by this process' descriptors only, so that nothing is
/// left of an interrupted load. The last step, one system call, registers it for good.
pub(crate) fn load(law: &LawSpec, name: &str) -> Result<(), Failure> {
    if !LAWS.contains(&law.name()) {
        return Err(Failure::NoSuchLaw {
            law: law.name().into(),
        });
    }
    if !is_name(name) {
        return Err(Failure::Name(name.into()));
    }
    if loaded::available()?.iter().any(|one| one == name) {
        return Err(exists(name));
    }
    // Its complaints are about the object, which users don't know; the error says what failed.
    set_print(None);
    let mut object = ObjectBuilder::default()
        .name("manyway")
        .and_then(|builder| builder.open_memory(OBJECT))
        .map_err(|error| Failure::Kernel("reading the programs", error))?;
    prepare(&mut object, law, name)?;
    let mut object = object
        .load()
        .map_err(|error| Failure::Kernel("loading the programs", error))?;
    let mut map = object
        .maps_mut()
        .find(|map| loaded::law_of(map.name()) == Some(law.name()))
        .expect("the object has its laws");
    let mut link = map
        .attach_struct_ops()
        .map_err(|error| match error.kind() {
            // Somebody else was quicker.
            libbpf_rs::ErrorKind::AlreadyExists => exists(name),
            _ => Failure::Kernel("registering the congestion control", error),
        })?;
    // It stays when this process ends.
    link.disconnect();
    Ok(())
}

/// Keeps the one law, and writes its name and its parameter into the object.
fn prepare(object: &mut OpenObject, law: &LawSpec, name: &str) -> Result<(), Failure> {
    for mut map in object.maps_mut() {
        let Some(of) = map
            .name()
            .to_str()
            .and_then(|name| name.strip_prefix("manyway_"))
        else {
            continue;
        };
        if of != law.name() {
            map.set_autocreate(false)
                .map_err(|error| Failure::Kernel("choosing the law", error))?;
        } else if let Some(value) = map.initial_value_mut() {
            let field = name_field(value, of);
            field.fill(0);
            field[..name.len()].copy_from_slice(name.as_bytes());
        }
    }
    let weight = law.parameters().find(|(parameter, _)| parameter.key == "a");
    let constants = object.maps_mut().find(|map| map.name() == ".rodata");
    if let (Some((_, weight)), Some(mut constants)) = (weight, constants)
        && let Some(value) = constants.initial_value_mut()
    {
        value.copy_from_slice(&((weight * ONE) as u64).to_ne_bytes());
    }
    Ok(())
}

/// The field `name` of a `tcp_congestion_ops` as the object has it, where the law's name stands.
fn name_field<'a>(value: &'a mut [u8], law: &str) -> &'a mut [u8] {
    let at = value
        .windows(law.len())
        .position(|bytes| bytes == law.as_bytes());
    let at = at.expect("the object names its laws");
    &mut value[at..=at + LONGEST_NAME]
}

/// Whether the kernel and its users can say this name: as words of a `sysctl` it has no spaces.
fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(fits)
}

fn exists(name: &str) -> Failure {
    let ours = loaded::list().is_ok_and(|all| all.iter().any(|one| one.name == name));
    Failure::Exists {
        name: name.into(),
        ours,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_has_the_laws_and_room_for_a_name() {
        let mut object = ObjectBuilder::default().open_memory(OBJECT).unwrap();
        let mut seen = Vec::new();
        for mut map in object.maps_mut() {
            let name = map.name().to_str().unwrap().to_owned();
            if let Some(law) = name.strip_prefix("manyway_") {
                let field = name_field(map.initial_value_mut().unwrap(), law);
                assert_eq!(field[..law.len()], *law.as_bytes());
                assert!(field[law.len()..].iter().all(|&byte| byte == 0));
                seen.push(law.to_owned());
            }
        }
        seen.sort();
        let mut laws = LAWS;
        laws.sort_unstable();
        assert_eq!(seen, laws);
    }

    #[test]
    fn every_law_is_one_of_control_and_means_the_same() {
        for law in LAWS {
            assert_eq!(law.parse::<LawSpec>().unwrap().name(), law);
        }
    }

    #[test]
    fn names_are_words_that_fit() {
        for good in ["lia", "lia_2", "fifteen-letters"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "sixteen-letters-", "a b", "ä", "a\u{1b}[2J"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}

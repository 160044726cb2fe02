//! The baseline's file: what it wrote is taken over unchanged.

use super::*;

fn snapshot_of(entries: &str) -> Place {
    let place = Place::new();
    fs::write(place.snapshot(), format!(r#"{{"entries":[{entries}]}}"#)).unwrap();
    place
}

#[test]
fn its_entries_match_by_either_form_of_the_digest_and_keep_their_expiry() {
    let expires = T0 + 77;
    let entry = format!(
        r#"{{"id":"old","requestDigest":"theirs","result":{{"type":"note","stdout":"from \ud83d before"}},"expiresAt":{expires}}}"#
    );
    let place = snapshot_of(&entry);
    let journal = place.open(T0);
    let outcome = r#"{"type":"note","stdout":"from \ud83d before"}"#;
    let replayed = Lookup::Completed {
        outcome: outcome.into(),
    };
    let look = |digest: &str, baseline: &str, now| journal.lookup("old", digest, || baseline.to_owned(), now);
    assert_eq!(look("ours", "theirs", T0), replayed);
    assert_eq!(look("theirs", "never asked", expires - 1), replayed);
    assert_eq!(look("ours", "another", T0), Lookup::Conflict);
    assert_eq!(look("ours", "theirs", expires), Lookup::Free);

    // A clean stop writes it back byte for byte, as the baseline would read it.
    let before = fs::read(place.snapshot()).unwrap();
    journal.close(T0).unwrap();
    assert_eq!(fs::read(place.snapshot()).unwrap(), before);
}

#[test]
fn our_own_entries_do_not_ask_for_the_other_form() {
    let place = Place::new();
    let journal = place.open(T0);
    run(&journal, "a", T0);
    assert_eq!(journal.lookup("a", "x", || panic!("asked"), T0), Lookup::Conflict);
}

#[test]
fn white_space_other_members_fractions_and_line_breaks_do_no_harm() {
    let place = Place::new();
    let text = format!(
        "\n{{ \"entries\" :\t[\n {{\"expiresAt\": {}.5, \"more\": [1, \"]\\\"\"],\n \"result\": {{\n \"a\": \"x, ]\" }},\n \"requestDigest\": \"d\", \"id\": \"é\\n\"}} ,{{\"id\":\"b\",\"requestDigest\":\"d\",\"result\":null,\"expiresAt\":-3}}] }}\n",
        T0 + 10
    );
    fs::write(place.snapshot(), text).unwrap();
    let journal = place.open(T0);
    let found = journal.lookup("é\n", "d", || "no".to_owned(), T0);
    assert_eq!(
        found,
        Lookup::Completed {
            outcome: "{  \"a\": \"x, ]\" }".into()
        }
    );
    assert_eq!(journal.len(), 1, "the other one had expired");
    journal.settle();
    assert_eq!(place.ids_in_snapshot(), ["é\n"], "and it left the disk at the opening");
}

#[test]
fn more_entries_than_are_kept_lose_the_oldest() {
    let entries: Vec<String> = (0..1_000)
        .map(|n| {
            format!(
                r#"{{"id":"{n}","requestDigest":"{}","result":{{}},"expiresAt":{}}}"#,
                digest(&n.to_string()),
                T0 + 9
            )
        })
        .collect();
    let place = snapshot_of(&entries.join(","));
    let journal = place.open(T0);
    assert_eq!(journal.len(), 256);
    assert_eq!(look(&journal, "743", T0), Lookup::Free);
    assert_eq!(look(&journal, "744", T0), Lookup::Completed { outcome: "{}".into() });
}

#[test]
fn a_file_that_others_could_read_is_made_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = snapshot_of("");
    fs::set_permissions(place.snapshot(), fs::Permissions::from_mode(0o644)).unwrap();
    rustix::process::umask(rustix::fs::Mode::empty());
    let private = |place: &Place| {
        for name in place.names().into_iter().chain(["operations.log.lock".to_owned()]) {
            let mode = fs::metadata(place.folder.path().join(&name))
                .unwrap()
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    };
    let journal = place.open(T0);
    run(&journal, "a", T0);
    assert_eq!(place.names().len(), 2);
    private(&place);
    journal.close(T0).unwrap();
    private(&place);
}

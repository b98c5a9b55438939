//! The readers on good and on malformed input, and the mapping to entries.

use super::*;

/// What a reader said, in order; malformed records as `line: message`.
fn drain(reader: &mut dyn RecordReader) -> Vec<Result<Record, String>> {
    let mut seen = Vec::new();
    // The bound turns a reader that does not advance into a failing test.
    for _ in 0..1000 {
        match reader.next_record() {
            Ok(None) => return seen,
            Ok(Some(record)) => seen.push(Ok(record)),
            Err(ReadError::Malformed(malformed)) => {
                seen.push(Err(format!("{}: {}", malformed.line, malformed.message)));
                if !malformed.can_skip {
                    return seen;
                }
            }
            Err(ReadError::Io(source)) => panic!("{source}"),
        }
    }
    panic!("the reader does not end");
}

fn csv(text: &[u8]) -> Vec<Result<Record, String>> {
    drain(&mut CsvReader::new(text, b',').expect("a header"))
}

fn values(record: &Result<Record, String>) -> Vec<String> {
    let record = record.as_ref().expect("a record");
    record
        .fields
        .iter()
        .map(|(_, field)| match field {
            Field::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Field::Json(value) => value.to_string(),
        })
        .collect()
}

#[test]
fn csv_fields_hold_delimiters_quotes_and_lines() {
    let seen =
        csv(b"\xef\xbb\xbfkey,value\r\na,1\r\n\r\n\"b,\"\"x\",\"two\r\nlines\"\r\nc,5\" pipe\nd,");
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(values(&seen[0]), ["a", "1"]);
    assert_eq!(values(&seen[1]), ["b,\"x", "two\r\nlines"]);
    assert_eq!(values(&seen[2]), ["c", "5\" pipe"]);
    assert_eq!(values(&seen[3]), ["d", ""]);
    let lines: Vec<u64> = seen.iter().flatten().map(|record| record.line).collect();
    assert_eq!(lines, [2, 4, 6, 7]);
    assert_eq!(seen[0].as_ref().expect("a record").fields[0].0, "key");
}

#[test]
fn csv_keeps_bytes_that_are_not_utf_8() {
    let seen = csv(b"k\n\xff\x00\n");
    let record = seen[0].as_ref().expect("a record");
    assert_eq!(record.fields[0].1, Field::Bytes(vec![0xff, 0]));
    assert!(record.to_json().is_err());
}

#[test]
fn csv_names_the_line_of_what_is_malformed_and_goes_on() {
    let seen = csv(b"key,value\na,1,2\n\"b\"x,1\nonly\nc,3\n\"d,\n4\n");
    let messages: Vec<String> = seen.iter().filter_map(|one| one.clone().err()).collect();
    assert_eq!(messages.len(), 4, "{seen:?}");
    assert!(
        messages[0].starts_with("2: the record has 3 fields"),
        "{}",
        messages[0]
    );
    assert!(
        messages[1].starts_with("3: text follows"),
        "{}",
        messages[1]
    );
    assert!(
        messages[2].starts_with("4: the record has 1 fields"),
        "{}",
        messages[2]
    );
    assert!(
        messages[3].starts_with("6: a quote is opened"),
        "{}",
        messages[3]
    );
    assert_eq!(values(&seen[3]), ["c", "3"]);
}

#[test]
fn csv_headers_must_be_usable() {
    assert!(csv(b"").is_empty());
    for header in [&b"a,a\n"[..], b"\"a", b"\xff,b\n", b"\"a\"b\n"] {
        let error = CsvReader::new(header, b',').err().expect("unusable");
        assert!(
            matches!(
                error,
                ReadError::Malformed(Malformed {
                    line: 1,
                    can_skip: false,
                    ..
                })
            ),
            "{error:?}"
        );
    }
    let tabs = CsvReader::new(&b"a\tb\n"[..], b'\t').expect("a header");
    assert_eq!(tabs.header(), ["a", "b"]);
}

#[test]
fn json_lines_are_objects_one_per_line() {
    let text = b"\xef\xbb\xbf{\"k\":\"a\",\"n\":1.5}\r\n\n  \n[1]\n{\"k\":\n{\"k\":\"\xff\"}\n{\"k\":\"z\"}";
    let seen = drain(&mut JsonlReader::new(&text[..]));
    assert_eq!(values(&seen[0]), ["a", "1.5"]);
    assert_eq!(
        seen[0]
            .as_ref()
            .expect("a record")
            .to_json()
            .expect("it is"),
        b"{\"k\":\"a\",\"n\":1.5}"
    );
    let messages: Vec<String> = seen.iter().filter_map(|one| one.clone().err()).collect();
    assert_eq!(messages.len(), 3, "{seen:?}");
    assert!(
        messages[0].starts_with("4: the line is JSON but no object"),
        "{}",
        messages[0]
    );
    assert!(
        messages[1].starts_with("5: not JSON: EOF"),
        "{}",
        messages[1]
    );
    assert!(messages[2].starts_with("6: not JSON: "), "{}", messages[2]);
    assert_eq!(seen[4].as_ref().expect("a record").line, 7);
}

#[test]
fn deeply_nested_json_is_refused_not_followed() {
    let text = [vec![b'['; 100_000], b"\n{}\n".to_vec()].concat();
    let seen = drain(&mut JsonlReader::new(&text[..]));
    assert!(
        seen[0]
            .as_ref()
            .expect_err("too deep")
            .contains("recursion")
    );
    assert!(seen[1].is_ok());
}

#[test]
fn paragraphs_have_fields_of_several_lines() {
    let text = b"# a comment\n\nPackage: a\r\nDescription: short\n long one\n .\n\tlast \nSize:5\n \n\nPackage: b\n";
    let seen = drain(&mut Deb822Reader::new(&text[..]));
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert_eq!(values(&seen[0]), ["a", "short\nlong one\n.\nlast", "5"]);
    assert_eq!(seen[0].as_ref().expect("a record").line, 3);
    assert_eq!(seen[1].as_ref().expect("a record").line, 11);
    let json = seen[0]
        .as_ref()
        .expect("a record")
        .to_json()
        .expect("UTF-8");
    assert_eq!(
        String::from_utf8_lossy(&json),
        "{\"Package\":\"a\",\"Description\":\"short\\nlong one\\n.\\nlast\",\"Size\":\"5\"}"
    );
}

#[test]
fn malformed_paragraphs_are_skipped_as_a_whole() {
    let text = b" lost\nA: 1\n\nB: 1\nb: 2\nC: 3\n\nno colon\n\n: none\n\nD: 4\n";
    let seen = drain(&mut Deb822Reader::new(&text[..]));
    let messages: Vec<String> = seen.iter().filter_map(|one| one.clone().err()).collect();
    assert_eq!(messages.len(), 4, "{seen:?}");
    assert!(
        messages[0].starts_with("1: a continuation"),
        "{}",
        messages[0]
    );
    assert!(
        messages[1].starts_with("5: the paragraph has"),
        "{}",
        messages[1]
    );
    assert!(
        messages[2].starts_with("8: the line has no colon"),
        "{}",
        messages[2]
    );
    assert!(
        messages[3].starts_with("10: \"\" is not"),
        "{}",
        messages[3]
    );
    assert_eq!(values(&seen[4]), ["4"]);
}

fn exported() -> Mapping {
    Mapping {
        key_field: "key".into(),
        value: ValueFrom::Field("value".into()),
        is_exported: true,
        ignore_case: false,
    }
}

/// The entry of one JSON line, or what is wrong with it.
fn entry_of(mapping: &Mapping, line: &str) -> Result<Entry, String> {
    let mut reader = JsonlReader::new(line.as_bytes());
    let record = reader.next_record().expect("JSON").expect("a record");
    mapping
        .entry(&record)
        .map_err(|malformed| malformed.message)
}

#[test]
fn what_export_writes_is_read_back() {
    let entry = entry_of(
        &exported(),
        "{\"key_hex\":\"ff00\",\"value\":\"v\",\"expires_at\":1900000000}",
    )
    .expect("an entry");
    assert_eq!(
        (&entry.key[..], &entry.value[..]),
        (&[0xff, 0][..], &b"v"[..])
    );
    assert_eq!((entry.expires_at, entry.line), (1_900_000_000, 1));
    let entry = entry_of(&exported(), "{\"key\":7,\"value\":{\"a\":[1]}}").expect("an entry");
    assert_eq!(
        (&entry.key[..], &entry.value[..]),
        (&b"7"[..], &b"{\"a\":[1]}"[..])
    );
}

#[test]
fn entries_without_a_usable_key_or_value_are_refused() {
    let cases = [
        ("{\"key\":\"\",\"value\":\"v\"}", "the key is empty"),
        ("{\"key_hex\":\"\",\"value\":\"v\"}", "the key is empty"),
        ("{\"value\":\"v\"}", "no field \"key\""),
        ("{\"key\":\"k\"}", "no field \"value\""),
        ("{\"key\":null,\"value\":\"v\"}", "neither a string"),
        ("{\"key\":[1],\"value\":\"v\"}", "neither a string"),
        ("{\"key\":\"a\",\"key_hex\":\"61\",\"value\":\"v\"}", "both"),
        ("{\"key_hex\":\"6\",\"value\":\"v\"}", "not hexadecimal"),
        ("{\"key_hex\":6,\"value\":\"v\"}", "not hexadecimal"),
        (
            "{\"key\":\"k\",\"value\":\"v\",\"expires_at\":\"soon\"}",
            "expires_at",
        ),
        (
            "{\"key\":\"k\",\"value\":\"v\",\"expires_at\":-1}",
            "expires_at",
        ),
    ];
    for (line, expected) in cases {
        let message = entry_of(&exported(), line).expect_err(line);
        assert!(message.contains(expected), "{line}: {message}");
    }
}

#[test]
fn a_key_field_alone_stores_the_whole_record() {
    let mapping = Mapping {
        key_field: "id".into(),
        value: ValueFrom::WholeRecord,
        is_exported: false,
        ignore_case: false,
    };
    let entry = entry_of(&mapping, " {\"id\": 3, \"x\": 1} ").expect("an entry");
    assert_eq!(entry.key, b"3");
    assert_eq!(entry.value, b"{\"id\": 3, \"x\": 1}");
    let message = mapping
        .check_header(&["a".into(), "b".into()])
        .expect_err("no such column");
    assert!(
        message.contains("\"id\"") && message.contains("a, b"),
        "{message}"
    );
}

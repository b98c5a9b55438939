//! A line of the shell, split into words.
//!
//! Words are separated by blanks. `'...'` is literal. In `"..."`, `\n`, `\t`, `\r`, `\0`, `\\`, `\"` and `\xNN` stand for
//! their bytes. Quoted and unquoted parts that touch form one word. A word that begins with `#` outside quotes begins
//! a comment. Everything else is literal, a backslash outside of quotes too.

/// The words of `line`.
///
/// # Errors
/// A message for a quote that is not closed or an escape that is none.
pub(super) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut rest = line.iter().copied();
    while let Some(byte) = rest.next() {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => words.extend(word.take()),
            b'#' if word.is_none() => break,
            b'\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next() {
                        None => return Err("a ' is not closed".into()),
                        Some(b'\'') => break,
                        Some(byte) => word.push(byte),
                    }
                }
            }
            b'"' => double_quoted(&mut rest, word.get_or_insert_default())?,
            byte => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Appends what stands before the closing quote.
fn double_quoted(rest: &mut impl Iterator<Item = u8>, word: &mut Vec<u8>) -> Result<(), String> {
    loop {
        let byte = match rest.next().ok_or("a \" is not closed")? {
            b'"' => return Ok(()),
            b'\\' => match rest.next().ok_or("a \" is not closed")? {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'0' => 0,
                byte @ (b'\\' | b'"') => byte,
                b'x' => {
                    let digits = [rest.next().unwrap_or(0), rest.next().unwrap_or(0)];
                    *crate::text::from_hex(&digits)
                        .ok_or("\\x needs two hexadecimal digits")?
                        .first()
                        .ok_or("\\x needs two hexadecimal digits")?
                }
                other => {
                    return Err(format!("\\{} is not an escape", char::from(other)));
                }
            },
            byte => byte,
        };
        word.push(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        split(line.as_bytes())
            .expect(line)
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect()
    }

    #[test]
    fn words_are_separated_by_blanks_and_kept_together_by_quotes() {
        assert_eq!(words("put  a\tb\n"), ["put", "a", "b"]);
        assert_eq!(words("put 'a b' \"c\\n\\\"d\""), ["put", "a b", "c\n\"d"]);
        assert_eq!(words("x'y'\"z\""), ["xyz"]);
        assert_eq!(words("put '' \"\""), ["put", "", ""]);
        assert_eq!(words("get a#b # comment"), ["get", "a#b"]);
        assert_eq!(words("get \\n"), ["get", "\\n"]);
        assert!(words("  # only a comment").is_empty());
        assert_eq!(
            split(b"\"\\x00\\xfF\\0\"").expect("escapes"),
            [vec![0, 0xff, 0]]
        );
        assert_eq!(split(b"\xff").expect("any bytes"), [vec![0xff]]);
    }

    #[test]
    fn what_is_not_closed_or_unknown_is_an_error() {
        for line in [
            "'a",
            "\"a",
            "\"\\",
            "\"\\q\"",
            "\"\\x\"",
            "\"\\x1",
            "\"\\xzz\"",
        ] {
            assert!(split(line.as_bytes()).is_err(), "{line}");
        }
    }
}

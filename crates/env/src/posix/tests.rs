use super::*;

#[test]
fn a_boot_id_is_a_uuid_in_text() {
    assert_eq!(
        parse_boot_id("00000000-0000-0000-0000-0000000000ff\n"),
        Some(255)
    );
    assert_eq!(parse_boot_id("00000000-0000-0000-0000-0000000000f"), None);
    assert_eq!(parse_boot_id("z0000000-0000-0000-0000-0000000000ff"), None);
    assert_eq!(parse_boot_id(""), None);
}

#[test]
fn the_fallback_fills_every_byte() {
    // Each byte of 19 stays zero in 16 independent draws with probability 2^-128.
    let mut seen = [0_u8; 19];
    for _ in 0..16 {
        let mut bytes = [0_u8; 19];
        fill_from_hasher(&mut bytes);
        for (seen, byte) in seen.iter_mut().zip(bytes) {
            *seen |= byte;
        }
    }
    assert!(seen.iter().all(|byte| *byte != 0));
}

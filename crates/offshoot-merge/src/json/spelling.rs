//! What a scalar means, however it is spelled: escapes in texts, zeros and exponents in numbers.

use std::borrow::Cow;

/// A form that is equal for scalars that mean the same, and different for all others.
pub(super) fn meaning(spelled: &[u8]) -> Cow<'_, [u8]> {
    match spelled.first() {
        Some(b'"') => match decode(spelled) {
            // What cannot be decoded must not look like a text with that meaning.
            Cow::Borrowed(raw) if raw.contains(&b'\\') => Cow::Owned([raw, &[0xff]].concat()),
            decoded => decoded,
        },
        Some(b'-' | b'0'..=b'9') if spelled.iter().any(|byte| b".eE".contains(byte)) => {
            plain_number(spelled).map_or(Cow::Borrowed(spelled), Cow::Owned)
        }
        _ => Cow::Borrowed(spelled),
    }
}

/// A number without an exponent and without zeros at the end of its fraction; none where the
/// exponent is so large that the digits would fill a page.
fn plain_number(spelled: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(spelled).ok()?;
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let exponent: i32 = exponent
        .parse()
        .ok()
        .filter(|exponent| (-99..=99).contains(exponent))?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    // Where the point stands among the digits, with zeros added on either side as needed.
    let point = whole.len() as i32 + exponent;
    let before = usize::try_from(-point).unwrap_or(0);
    let after = usize::try_from(point - digits.len() as i32).unwrap_or(0);
    let digits = format!("{}{digits}{}", "0".repeat(before), "0".repeat(after));
    let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}").into_bytes())
}

/// Resolves the escapes of a text, so that `"a"` and `"\u0061"` are one key and one value.
pub(super) fn decode(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let mut units: Vec<u16> = Vec::with_capacity(raw.len());
    let text = String::from_utf8_lossy(raw);
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
            continue;
        }
        units.push(match characters.next() {
            Some('b') => 8,
            Some('f') => 12,
            Some('n') => 10,
            Some('r') => 13,
            Some('t') => 9,
            Some('u') => (0..4).fold(0, |value, _| {
                value * 16
                    + characters
                        .next()
                        .and_then(|digit| digit.to_digit(16))
                        .unwrap_or(0)
            }) as u16,
            Some(other) => other as u16,
            None => break,
        });
    }
    match String::from_utf16(&units) {
        Ok(decoded) => Cow::Owned(decoded.into_bytes()),
        // A lone surrogate has no UTF-8 form; the spelling itself is the key then.
        Err(_) => Cow::Borrowed(raw),
    }
}

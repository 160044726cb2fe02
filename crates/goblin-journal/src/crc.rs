//! CRC-32 (IEEE 802.3, reflected), eight bytes a step. It detects damage; it must never be taken for authentication.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 {
                (value >> 1) ^ 0xedb8_8320
            } else {
                value >> 1
            };
            bit += 1;
        }
        tables[0][byte] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of the parts, as if they were one.
pub(crate) fn checksum(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(u32::MAX, |value, part| update(value, part))
}

fn update(mut value: u32, bytes: &[u8]) -> u32 {
    let (steps, rest) = bytes.as_chunks::<8>();
    for step in steps {
        let mixed = u64::from_le_bytes(*step) ^ u64::from(value);
        value = 0;
        for (place, byte) in mixed.to_le_bytes().into_iter().enumerate() {
            value ^= TABLES[7 - place][byte as usize];
        }
    }
    for byte in rest {
        value = (value >> 8) ^ TABLES[0][((value ^ u32::from(*byte)) & 0xff) as usize];
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_published_check_value_however_it_is_cut() {
        let text = b"123456789";
        for cut in 0..=text.len() {
            assert_eq!(checksum(&[&text[..cut], &text[cut..]]), 0xcbf4_3926);
        }
        assert_eq!(checksum(&[]), 0);
        assert_eq!(checksum(&[b"The quick brown fox jumps over the lazy dog"]), 0x414f_a339);
    }
}

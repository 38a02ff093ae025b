//! How much memory what a host sends may take, reckoned before it is read into values: seven bytes of
//! JSON can become an object of several hundred.

use super::super::wire::ClientError;

/// For one answer, and for all pages of a list together, bytes. The largest results that a host may be
/// configured to return fit.
const ROOM_BYTES: usize = 256 << 20;

/// What an object takes with its first few members, an array with its first few items, and each one
/// more, bytes.
const OBJECT_BYTES: usize = 640;
const ARRAY_BYTES: usize = 144;
const ITEM_BYTES: usize = 96;

pub struct Room {
    left_bytes: usize,
}

impl Room {
    pub fn new() -> Room {
        Room {
            left_bytes: ROOM_BYTES,
        }
    }

    /// Takes the room that `json` needs once it is read.
    pub fn take(&mut self, json: &[u8]) -> Result<(), ClientError> {
        match self.left_bytes.checked_sub(reckoned(json)) {
            Some(left) => {
                self.left_bytes = left;
                Ok(())
            }
            None => Err(ClientError::NoRoom {
                mebibytes: ROOM_BYTES >> 20,
            }),
        }
    }
}

/// As far as the text is JSON, which is as far as it will be read.
fn reckoned(json: &[u8]) -> usize {
    let mut bytes = json.iter();
    let mut reckoned = json.len();
    let mut is_text = false;
    while let Some(byte) = bytes.next() {
        let takes = match (is_text, byte) {
            (true, b'\\') => {
                bytes.next();
                0
            }
            (_, b'"') => {
                is_text = !is_text;
                0
            }
            (false, b'{') => OBJECT_BYTES,
            (false, b'[') => ARRAY_BYTES,
            (false, b',') => ITEM_BYTES,
            _ => 0,
        };
        reckoned = reckoned.saturating_add(takes);
    }
    reckoned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_text_takes_its_length() {
        assert_eq!(reckoned(br#""{[,\"{[,\\""#), 12);
        assert_eq!(
            reckoned(b"[{},0]"),
            6 + ARRAY_BYTES + OBJECT_BYTES + ITEM_BYTES
        );
    }

    #[test]
    fn pages_share_their_room() {
        let page = vec![b'x'; ROOM_BYTES / 2];
        let mut room = Room::new();
        assert!(room.take(&page).is_ok());
        assert!(room.take(&page).is_ok());
        assert!(room.take(b"x").is_err());
    }
}

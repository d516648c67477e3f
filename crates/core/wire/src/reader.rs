use crate::DecodeError;
use crate::varint;

/// Takes fields from the front of a byte slice. `what` names the field in errors.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (field, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(field)
    }

    pub(crate) fn array<const N: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; N], DecodeError> {
        let (field, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated { what })?;
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array(what).map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, DecodeError> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(crate) fn varint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        varint::get(&mut self.rest).ok_or(DecodeError::Truncated { what })
    }

    pub(crate) fn varint_up_to(
        &mut self,
        limit: u64,
        what: &'static str,
    ) -> Result<u64, DecodeError> {
        let value = self.varint(what)?;
        if value > limit {
            return Err(DecodeError::TooLarge { what, value, limit });
        }
        Ok(value)
    }

    /// A varint that counts bytes or things that follow: at most as many as bytes are left.
    pub(crate) fn count(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        let value = self.varint(what)?;
        match usize::try_from(value) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(DecodeError::Truncated { what }),
        }
    }
}

/// Whether something has its only length.
pub(crate) fn exactly(
    bytes: &[u8],
    expected: usize,
    what: &'static str,
) -> Result<(), DecodeError> {
    match bytes.len() {
        found if found == expected => Ok(()),
        found => Err(DecodeError::WrongLength {
            what,
            expected,
            found,
        }),
    }
}

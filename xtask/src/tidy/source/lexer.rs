//! Text to tokens. Knows what may hide code from a naive search: nested comments, raw strings, characters that look
//! like lifetimes.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// An identifier or keyword.
    Ident,
    /// A number.
    Number,
    /// A string, character or byte literal.
    Literal,
    /// A lifetime or label.
    Lifetime,
    /// One punctuation character, or one of `::`, `->`, `=>`.
    Punct,
}

/// One token: bytes `start..end` of the text.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    /// What it is.
    pub kind: TokenKind,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: usize,
}

/// One comment: bytes `start..end` of the text.
#[derive(Clone, Copy, Debug)]
pub struct Comment {
    /// First byte, a slash.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of the first byte, from 1.
    pub line: usize,
}

/// Tokens and comments of `text`, both in order.
pub fn tokenize(text: &str) -> (Vec<Token>, Vec<Comment>) {
    let mut lexer = Lexer {
        bytes: text.as_bytes(),
        at: 0,
    };
    let (mut tokens, mut comments) = (Vec::new(), Vec::new());
    let (mut line, mut counted) = (1, 0);
    while lexer.at < lexer.bytes.len() {
        let start = lexer.at;
        line += count_newlines(&lexer.bytes[counted..start]);
        counted = start;
        let lexeme = lexer.next();
        let end = lexer.at;
        match lexeme {
            Lexeme::Space => {}
            Lexeme::Comment => comments.push(Comment { start, end, line }),
            Lexeme::Token(kind) => tokens.push(Token {
                kind,
                start,
                end,
                line,
            }),
        }
    }
    (tokens, comments)
}

fn count_newlines(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

enum Lexeme {
    Space,
    Comment,
    Token(TokenKind),
}

struct Lexer<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, offset: usize) -> u8 {
        self.bytes.get(self.at + offset).copied().unwrap_or(0)
    }

    fn starts_with(&self, prefix: &[u8]) -> bool {
        self.bytes[self.at..].starts_with(prefix)
    }

    fn skip_while(&mut self, accept: impl Fn(u8) -> bool) {
        while self.bytes.get(self.at).is_some_and(|byte| accept(*byte)) {
            self.at += 1;
        }
    }

    /// Consumes at least one byte; never ends inside a character.
    fn next(&mut self) -> Lexeme {
        if self.starts_with(b"//") {
            self.skip_while(|byte| byte != b'\n');
            return Lexeme::Comment;
        }
        if self.starts_with(b"/*") {
            self.block_comment();
            return Lexeme::Comment;
        }
        if self.literal_with_prefix() {
            return Lexeme::Token(TokenKind::Literal);
        }
        match self.peek(0) {
            byte if byte.is_ascii_whitespace() => {
                self.skip_while(|byte| byte.is_ascii_whitespace());
                Lexeme::Space
            }
            b'"' => {
                self.quoted(b'"');
                Lexeme::Token(TokenKind::Literal)
            }
            b'\'' => Lexeme::Token(self.character_or_lifetime()),
            byte if byte.is_ascii_digit() => {
                self.number();
                Lexeme::Token(TokenKind::Number)
            }
            byte if is_ident_byte(byte) => {
                if self.starts_with(b"r#") {
                    self.at += 2;
                }
                self.skip_while(is_ident_byte);
                Lexeme::Token(TokenKind::Ident)
            }
            _ => {
                let two = [b"::", b"->", b"=>"];
                self.at += if two.iter().any(|punct| self.starts_with(*punct)) {
                    2
                } else {
                    1
                };
                Lexeme::Token(TokenKind::Punct)
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.bytes.len() {
            if self.starts_with(b"/*") {
                depth += 1;
                self.at += 2;
            } else if self.starts_with(b"*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    return;
                }
            } else {
                self.at += 1;
            }
        }
    }

    /// Consumes `b"`, `c"`, `b'`, `r"`, `br#"` and the like; false when none is here.
    fn literal_with_prefix(&mut self) -> bool {
        let prefix = match (self.peek(0), self.peek(1)) {
            (b'b' | b'c', b'"') | (b'b', b'\'') => {
                self.at += 1;
                self.quoted(self.peek(0));
                return true;
            }
            (b'b' | b'c', b'r') => 2,
            (b'r', _) => 1,
            _ => return false,
        };
        let mut hashes = 0;
        while self.peek(prefix + hashes) == b'#' {
            hashes += 1;
        }
        if self.peek(prefix + hashes) != b'"' {
            return false;
        }
        self.at += prefix + hashes + 1;
        let mut end = vec![b'"'];
        end.resize(1 + hashes, b'#');
        while self.at < self.bytes.len() {
            if self.starts_with(&end) {
                self.at += end.len();
                return true;
            }
            self.at += 1;
        }
        true
    }

    fn quoted(&mut self, quote: u8) {
        self.at += 1;
        while self.at < self.bytes.len() {
            match self.peek(0) {
                b'\\' => self.at += 1 + usize::from(self.at + 1 < self.bytes.len()),
                byte => {
                    self.at += 1;
                    if byte == quote {
                        return;
                    }
                }
            }
        }
    }

    fn character_or_lifetime(&mut self) -> TokenKind {
        let width = match self.peek(1) {
            b'\\' => {
                self.quoted(b'\'');
                return TokenKind::Literal;
            }
            0x00..=0x7f => 1,
            0x80..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
        };
        if self.peek(1 + width) == b'\'' {
            self.at += width + 2;
            return TokenKind::Literal;
        }
        self.at += 1;
        self.skip_while(is_ident_byte);
        TokenKind::Lifetime
    }

    fn number(&mut self) {
        self.skip_while(is_ident_byte);
        if self.peek(0) == b'.' && self.peek(1).is_ascii_digit() {
            self.at += 1;
            self.skip_while(is_ident_byte);
        }
    }
}

const fn is_ident_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

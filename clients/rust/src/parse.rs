use std::collections::{HashMap, HashSet};

use crate::v1::expression::Kind;
use crate::v1::indexing_map::State;
use crate::v1::{Constraint, Expression, IndexingMap, Interval, Variable};
use crate::{Code, Error, Map, Result};

/// Bounds parentheses within each other in the text of a map, and with them the stack.
const MAX_NESTING: usize = 1000;

impl Map {
    /// Reads a map in text, as XLA or as MLIR writes it: `(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3], d0 + s0 in [0, 11]`.
    ///
    /// Runtime variables stand in braces: `(d0){rt0} -> (d0 + rt0)`; the lines after `runtime variables:`, which say where their values come from, are
    /// not read. Expressions have `+`, `-`, `*`, `/` or `floordiv`, `ceildiv`, `mod`, `min(a, b)` and `max(a, b)`. The reason of the error is `PARSE`,
    /// with line and column, or one of [`Map::new`].
    pub fn parse(text: &str) -> Result<Map> {
        let text = text.split("\nruntime variables:").next().unwrap_or(text);
        let alone = match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["KNOWN", "EMPTY"] => Some(State::KnownEmpty),
            ["UNDEFINED"] => Some(State::Undefined),
            _ => None,
        };
        if let Some(state) = alone {
            return Map::new(IndexingMap { state: state.into(), ..Default::default() });
        }
        let mut parser =
            Parser { text, start: 0, end: 0, message: IndexingMap::default(), variables: HashMap::new(), nesting: 0 };
        parser.next();
        parser.parse()?;
        Map::new(parser.message)
    }
}

/// Reads a map by recursive descent.
struct Parser<'a> {
    text: &'a str,
    /// The current token is `text[start..end]`; empty at the end of the text.
    start: usize,
    end: usize,
    message: IndexingMap,
    /// The expression of each variable.
    variables: HashMap<&'a str, u32>,
    nesting: usize,
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte == b'$' || byte.is_ascii_alphanumeric()
}

fn starts_with_digit(token: &str) -> bool {
    token.as_bytes().first().is_some_and(u8::is_ascii_digit)
}

impl<'a> Parser<'a> {
    fn token(&self) -> &'a str {
        &self.text[self.start..self.end]
    }

    fn next(&mut self) {
        let rest = &self.text[self.end..];
        self.start = self.end + rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        let rest = &self.text[self.start..];
        let length = match rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len()) {
            0 if rest.starts_with("->") => 2,
            0 => rest.chars().next().map_or(0, char::len_utf8),
            length => length,
        };
        self.end = self.start + length;
    }

    fn fail<T>(&self, expected: &str) -> Result<T> {
        let before = &self.text[..self.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let found = match self.token() {
            "" => "the end of the text".to_owned(),
            token => format!("{token:?}"),
        };
        Err(Error::new(Code::InvalidArgument, "PARSE", format!("expected {expected}, found {found}"))
            .at(before.matches('\n').count() + 1, before[line_start..].chars().count() + 1))
    }

    /// Passes a token that is as given.
    fn take(&mut self, token: &str) -> bool {
        let is_there = self.token() == token;
        if is_there {
            self.next();
        }
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.take(token) {
            return Ok(());
        }
        self.fail(&format!("{token:?}"))
    }

    fn parse(&mut self) -> Result<()> {
        self.message.dimensions = self.declared("(", ")", Kind::Dimension, "d")?;
        if self.token() == "[" {
            self.message.ranges = self.declared("[", "]", Kind::Range, "s")?;
        }
        if self.token() == "{" {
            self.message.runtime = self.declared("{", "}", Kind::Runtime, "rt")?;
        }
        self.expect("->")?;
        self.expect("(")?;
        while !self.take(")") {
            let result = self.expression()?;
            self.message.results.push(result);
            if self.token() != ")" {
                self.expect(",")?;
            }
        }
        self.take(",");
        let mut bounded = HashSet::new();
        if self.take("domain") {
            self.expect(":")?;
            while !self.token().is_empty() {
                self.bounds(&mut bounded)?;
                if !self.take(",") {
                    break;
                }
            }
        }
        if !self.token().is_empty() {
            return self.fail("the end of the text");
        }
        if bounded.len() < self.variables.len() {
            return self.fail("a domain with an interval for every variable");
        }
        Ok(())
    }

    /// Reads the names of variables, and makes an expression of each.
    fn declared(&mut self, open: &str, end: &str, kind: Kind, prefix: &str) -> Result<Vec<Variable>> {
        self.expect(open)?;
        let mut variables = Vec::new();
        while !self.take(end) {
            let name = self.token();
            let is_name = name.bytes().next().is_some_and(is_word) && !starts_with_digit(name);
            if !is_name || self.variables.contains_key(name) {
                return self.fail("the name of a new variable");
            }
            let number = variables.len();
            let is_default = name == format!("{prefix}{number}");
            let kept = if is_default { String::new() } else { name.to_owned() };
            variables.push(Variable { bounds: None, name: kept });
            let node = self.add(kind, number as i64, vec![]);
            self.variables.insert(name, node);
            self.next();
            if self.token() != end {
                self.expect(",")?;
            }
        }
        Ok(variables)
    }

    /// Reads `expression in [lower, upper]`: of a variable its bounds, of anything else a constraint.
    fn bounds(&mut self, bounded: &mut HashSet<u32>) -> Result<()> {
        if self.take("is_simplified") {
            self.expect(":")?;
            self.next();
            return Ok(());
        }
        let expression = self.expression()?;
        self.expect("in")?;
        self.expect("[")?;
        let lower = self.integer()?;
        self.expect(",")?;
        let upper = self.integer()?;
        self.expect("]")?;
        let mut interval = Interval { lower, upper };
        let node = &self.message.expressions[expression as usize];
        let group = match Kind::try_from(node.kind) {
            Ok(Kind::Dimension) => &mut self.message.dimensions,
            Ok(Kind::Range) => &mut self.message.ranges,
            Ok(Kind::Runtime) => &mut self.message.runtime,
            _ => {
                self.message.constraints.push(Constraint { expression, bounds: Some(interval) });
                return Ok(());
            }
        };
        let bounds = &mut group[node.value as usize].bounds;
        if let Some(known) = bounds {
            interval = Interval { lower: lower.max(known.lower), upper: upper.min(known.upper) };
        }
        *bounds = Some(interval);
        bounded.insert(expression);
        Ok(())
    }

    fn integer(&mut self) -> Result<i64> {
        let sign = if self.take("-") { "-" } else { "" };
        match format!("{sign}{}", self.token()).parse() {
            Ok(value) if starts_with_digit(self.token()) => {
                self.next();
                Ok(value)
            }
            _ => self.fail("an integer of 64 bits"),
        }
    }

    fn add(&mut self, kind: Kind, value: i64, operands: Vec<u32>) -> u32 {
        self.message.expressions.push(Expression { kind: kind.into(), value, operands });
        self.message.expressions.len() as u32 - 1
    }

    fn negative(&mut self, of: u32) -> u32 {
        let minus_one = self.add(Kind::Constant, -1, vec![]);
        self.add(Kind::Multiply, 0, vec![of, minus_one])
    }

    fn expression(&mut self) -> Result<u32> {
        let mut sum = self.product()?;
        loop {
            let is_minus = self.token() == "-";
            if !is_minus && self.token() != "+" {
                return Ok(sum);
            }
            self.next();
            let mut other = self.product()?;
            if is_minus {
                other = self.negative(other);
            }
            sum = self.add(Kind::Add, 0, vec![sum, other]);
        }
    }

    fn product(&mut self) -> Result<u32> {
        let mut product = self.unary()?;
        loop {
            let kind = match self.token() {
                "*" => Kind::Multiply,
                "/" | "floordiv" => Kind::FloorDivide,
                "ceildiv" => Kind::CeilDivide,
                "mod" => Kind::Modulo,
                _ => return Ok(product),
            };
            self.next();
            let other = self.unary()?;
            product = self.add(kind, 0, vec![product, other]);
        }
    }

    fn unary(&mut self) -> Result<u32> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.fail(&format!("at most {MAX_NESTING} levels of an expression"));
        }
        let node = self.operand();
        self.nesting -= 1;
        node
    }

    fn operand(&mut self) -> Result<u32> {
        let token = self.token();
        if let Some(&variable) = self.variables.get(token) {
            self.next();
            return Ok(variable);
        }
        if starts_with_digit(token) {
            let value = self.integer()?;
            return Ok(self.add(Kind::Constant, value, vec![]));
        }
        match token {
            "-" => {
                self.next();
                // The least i64 has no positive counterpart, so the sign belongs to the number.
                if starts_with_digit(self.token()) {
                    if let Ok(value) = format!("-{}", self.token()).parse() {
                        self.next();
                        return Ok(self.add(Kind::Constant, value, vec![]));
                    }
                }
                let of = self.unary()?;
                Ok(self.negative(of))
            }
            "(" => {
                self.next();
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            "min" | "max" => {
                let kind = if token == "min" { Kind::Minimum } else { Kind::Maximum };
                self.next();
                self.expect("(")?;
                let first = self.expression()?;
                self.expect(",")?;
                let second = self.expression()?;
                self.expect(")")?;
                Ok(self.add(kind, 0, vec![first, second]))
            }
            _ => self.fail("an expression"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Map;

    #[test]
    fn mistakes_have_a_reason() {
        let deep = format!("(d0) -> ({}d0), domain: d0 in [0, 3]", "(".repeat(100_000));
        let negative = format!("(d0) -> ({}d0), domain: d0 in [0, 3]", "-".repeat(1_000_000));
        for (text, reason) in [
            ("UNDEFINED", "INVALID_MAP"),
            ("(d0) -> (d0 mod 0), domain: d0 in [0, 3]", "INVALID_MAP"),
            ("(d0) -> (7 / d0), domain: d0 in [0, 3]", "INVALID_MAP"),
            ("(d0) -> (d1), domain: d0 in [0, 3]", "PARSE"),
            ("(d0) -> (d0)", "PARSE"),
            ("(d0, d0) -> (d0), domain: d0 in [0, 3]", "PARSE"),
            ("(d0) -> (d0, domain: d0 in [0, 3]", "PARSE"),
            ("", "PARSE"),
            ("(d0) -> (99999999999999999999), domain: d0 in [0, 3]", "PARSE"),
            ("(d0) -> (d0), domain: d0 in [0, 3] and more", "PARSE"),
            ("(d0) -> (é), domain: d0 in [0, 3]", "PARSE"),
            (&deep, "PARSE"),
            (&negative, "PARSE"),
        ] {
            assert_eq!(Map::parse(text).unwrap_err().reason(), reason, "{:.60}", text);
        }
    }
}

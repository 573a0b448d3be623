use std::collections::HashMap;

use crate::map::{combined, divides};
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
        let tokens = tokens(text);
        let message = match tokens[..] {
            ["KNOWN", "EMPTY", ""] => IndexingMap { state: State::KnownEmpty.into(), ..Default::default() },
            ["UNDEFINED", ""] => IndexingMap { state: State::Undefined.into(), ..Default::default() },
            _ => Parser { text, tokens, ..Default::default() }.parsed()?,
        };
        Map::new(message)
    }
}

/// The tokens of a text, and an empty one at its end.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c == '_' || c == '$' || c.is_ascii_alphanumeric();
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let length = if rest.starts_with("->") { 2 } else { word.max(first.len_utf8()) };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens.push(rest);
    tokens
}

fn starts_with_digit(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit())
}

/// Reads a map by recursive descent.
#[derive(Default)]
struct Parser<'a> {
    text: &'a str,
    tokens: Vec<&'a str>,
    at: usize,
    message: IndexingMap,
    /// The expression of each variable.
    nodes: HashMap<&'a str, u32>,
    /// The bounds of each variable, by its expression, as far as they are read.
    bounds: HashMap<u32, Option<Interval>>,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn token(&self) -> &'a str {
        self.tokens[self.at]
    }

    /// Passes a token that is as given.
    fn take(&mut self, token: &str) -> bool {
        let is_there = self.token() == token;
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.take(token) {
            return Ok(());
        }
        self.fail(&format!("{token:?}"))
    }

    fn fail<T>(&self, expected: &str) -> Result<T> {
        let start = self.token().as_ptr() as usize - self.text.as_ptr() as usize;
        let before = &self.text[..start];
        let line = before.rsplit('\n').next().unwrap_or(before);
        let found = match self.token() {
            "" => "the end of the text".to_owned(),
            token => format!("{token:?}"),
        };
        Err(Error::new(Code::InvalidArgument, "PARSE", format!("expected {expected}, found {found}"))
            .at(before.matches('\n').count() + 1, line.chars().count() + 1))
    }

    fn parsed(mut self) -> Result<IndexingMap> {
        let dimensions = self.declared("(", ")", Kind::Dimension)?;
        let ranges = if self.token() == "[" { self.declared("[", "]", Kind::Range)? } else { vec![] };
        let runtime = if self.token() == "{" { self.declared("{", "}", Kind::Runtime)? } else { vec![] };
        self.expect("->")?;
        self.message.results = self.list("(", ")", Self::sum)?;
        self.take(",");
        if self.take("domain") {
            self.expect(":")?;
            while !self.token().is_empty() {
                self.interval()?;
                if !self.take(",") {
                    break;
                }
            }
        }
        if !self.token().is_empty() {
            return self.fail("the end of the text");
        }
        let mut next = 0; // the variables are the first expressions
        let mut with_bounds = |names: Vec<String>| -> Option<Vec<Variable>> {
            let variable = |name| {
                next += 1;
                Some(Variable { name, bounds: Some(self.bounds[&(next - 1)]?) })
            };
            names.into_iter().map(variable).collect()
        };
        let (Some(dimensions), Some(ranges), Some(runtime)) =
            (with_bounds(dimensions), with_bounds(ranges), with_bounds(runtime))
        else {
            return self.fail("a domain with an interval for every variable");
        };
        Ok(IndexingMap { dimensions, ranges, runtime, ..self.message })
    }

    /// Reads items between two tokens, with commas between them.
    fn list<T>(&mut self, open: &str, end: &str, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect(open)?;
        let mut items = Vec::new();
        while !self.take(end) {
            items.push(item(self)?);
            if self.token() != end {
                self.expect(",")?;
            }
        }
        Ok(items)
    }

    /// Reads the names of variables, and makes an expression of each. A name that follows from its place is not kept.
    fn declared(&mut self, open: &str, end: &str, kind: Kind) -> Result<Vec<String>> {
        let prefix = match kind {
            Kind::Dimension => "d",
            Kind::Range => "s",
            _ => "rt",
        };
        let mut number = 0;
        self.list(open, end, |parser| {
            let name = parser.token();
            let is_name = name.starts_with(|c: char| c == '_' || c == '$' || c.is_ascii_alphabetic());
            if !is_name || parser.nodes.contains_key(name) {
                return parser.fail("the name of a new variable");
            }
            parser.at += 1;
            let node = parser.add(kind, number, vec![]);
            parser.nodes.insert(name, node);
            parser.bounds.insert(node, None);
            number += 1;
            let is_default = name == format!("{prefix}{}", number - 1);
            Ok(if is_default { String::new() } else { name.to_owned() })
        })
    }

    /// Reads `expression in [lower, upper]`: of a variable its bounds, of anything else a constraint.
    fn interval(&mut self) -> Result<()> {
        if self.take("is_simplified") {
            self.expect(":")?;
            self.at += usize::from(!self.token().is_empty());
            return Ok(());
        }
        let expression = self.sum()?;
        self.expect("in")?;
        self.expect("[")?;
        let lower = self.integer()?;
        self.expect(",")?;
        let upper = self.integer()?;
        self.expect("]")?;
        if let Some(bounds) = self.bounds.get_mut(&expression) {
            let known = bounds.unwrap_or(Interval { lower, upper });
            *bounds = Some(Interval { lower: lower.max(known.lower), upper: upper.min(known.upper) });
        } else {
            self.message.constraints.push(Constraint { expression, bounds: Some(Interval { lower, upper }) });
        }
        Ok(())
    }

    /// Reads digits, and a sign that belongs to them: the least `i64` has no positive counterpart.
    fn integer(&mut self) -> Result<i64> {
        let sign = if self.take("-") { "-" } else { "" };
        match format!("{sign}{}", self.token()).parse() {
            Ok(value) if starts_with_digit(self.token()) => {
                self.at += 1;
                Ok(value)
            }
            _ => self.fail("an integer of 64 bits"),
        }
    }

    fn add(&mut self, kind: Kind, value: i64, operands: Vec<u32>) -> u32 {
        self.message.expressions.push(Expression { kind: kind.into(), value, operands });
        self.message.expressions.len() as u32 - 1
    }

    /// An operation, or its value if both operands are constants and the value fits.
    fn operation(&mut self, kind: Kind, first: u32, second: u32) -> u32 {
        let constant = |of: u32| {
            let found = &self.message.expressions[of as usize];
            (found.kind() == Kind::Constant).then_some(found.value)
        };
        let operands = constant(first).zip(constant(second)).filter(|&(_, right)| !divides(kind) || right > 0);
        match operands.and_then(|(left, right)| combined(kind, left, right)) {
            Some(value) => self.add(Kind::Constant, value, vec![]),
            None => self.add(kind, 0, vec![first, second]),
        }
    }

    fn negative(&mut self, of: u32) -> u32 {
        let minus_one = self.add(Kind::Constant, -1, vec![]);
        self.operation(Kind::Multiply, of, minus_one)
    }

    fn sum(&mut self) -> Result<u32> {
        let mut sum = self.product()?;
        while let sign @ ("+" | "-") = self.token() {
            self.at += 1;
            let mut other = self.product()?;
            if sign == "-" {
                other = self.negative(other);
            }
            sum = self.operation(Kind::Add, sum, other);
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<u32> {
        let mut product = self.operand()?;
        loop {
            let kind = match self.token() {
                "*" => Kind::Multiply,
                "/" | "floordiv" => Kind::FloorDivide,
                "ceildiv" => Kind::CeilDivide,
                "mod" => Kind::Modulo,
                _ => return Ok(product),
            };
            self.at += 1;
            let other = self.operand()?;
            product = self.operation(kind, product, other);
        }
    }

    fn operand(&mut self) -> Result<u32> {
        self.nesting += 1;
        if self.nesting > MAX_NESTING {
            return self.fail(&format!("at most {MAX_NESTING} levels of an expression"));
        }
        let token = self.token();
        let next = self.tokens.get(self.at + 1).copied().unwrap_or_default();
        let node = if let Some(&variable) = self.nodes.get(token) {
            self.at += 1;
            variable
        } else if starts_with_digit(token) || (token == "-" && starts_with_digit(next)) {
            let value = self.integer()?;
            self.add(Kind::Constant, value, vec![])
        } else if self.take("-") {
            let of = self.operand()?;
            self.negative(of)
        } else if self.take("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            inner
        } else if self.take("min") || self.take("max") {
            let kind = if token == "min" { Kind::Minimum } else { Kind::Maximum };
            self.expect("(")?;
            let first = self.sum()?;
            self.expect(",")?;
            let second = self.sum()?;
            self.expect(")")?;
            self.operation(kind, first, second)
        } else {
            return self.fail("an expression");
        };
        self.nesting -= 1;
        Ok(node)
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

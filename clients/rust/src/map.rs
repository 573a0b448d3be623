use crate::v1::expression::Kind;
use crate::v1::indexing_map::State;
use crate::v1::{Expression, IndexingMap};
use crate::{Error, Result};

/// An indexing map that can be evaluated without a server.
///
/// ```
/// let map = xlashape::Map::parse("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]")?;
/// assert_eq!(map.evaluate(&[-3])?, Some(vec![-1, 1]));
/// assert_eq!(map.evaluate(&[9])?, None); // outside the domain
/// # Ok::<(), xlashape::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Map {
    message: IndexingMap,
    bounds: Vec<(i64, i64)>, // of each variable: dimensions, ranges, runtime
    nodes: Vec<Node>,
    constraints: Vec<(usize, i64, i64)>,
    results: Vec<usize>,
    is_empty: bool,
}

#[derive(Clone, Debug)]
enum Node {
    Constant(i64),
    Variable(usize),
    Operation(Kind, Vec<usize>),
}

/// The integers that nodes are evaluated with. `None` stands for a value that does not fit.
trait Integer: Copy + Ord {
    fn of(value: i64) -> Self;
    fn added(self, other: Self) -> Option<Self>;
    fn multiplied(self, other: Self) -> Option<Self>;
    /// The quotient towards minus infinity and the remainder for a positive divisor.
    fn divided(self, divisor: Self) -> (Self, Self);
    fn next(self) -> Self;
    fn to_i64(self) -> Option<i64>;
}

macro_rules! integer {
    ($type:ty) => {
        impl Integer for $type {
            fn of(value: i64) -> Self {
                value as $type
            }
            fn added(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            fn multiplied(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            fn divided(self, divisor: Self) -> (Self, Self) {
                (self.div_euclid(divisor), self.rem_euclid(divisor))
            }
            fn next(self) -> Self {
                self + 1 // a quotient with a remainder is not the greatest number
            }
            fn to_i64(self) -> Option<i64> {
                self.try_into().ok()
            }
        }
    };
}
integer!(i64);
integer!(i128);

impl Map {
    /// Checks a map, such as one of an answer of the server, and prepares it for evaluation. The reason of the error is `INVALID_MAP` if the map is
    /// undefined, or if an expression uses a later one, a variable that does not exist, a divisor that is not a positive constant, or too few
    /// operands.
    pub fn new(message: IndexingMap) -> Result<Map> {
        let is_empty = match State::try_from(message.state) {
            Ok(State::Unspecified | State::Defined) => false,
            Ok(State::KnownEmpty) => true,
            Ok(State::Undefined) => return Err(invalid("state", "an undefined map cannot be evaluated")),
            Err(_) => return Err(invalid("state", format!("unknown state {}", message.state))),
        };
        let groups = [&message.dimensions, &message.ranges, &message.runtime];
        let bounds = groups.iter().flat_map(|group| group.iter()).map(|v| v.bounds.unwrap_or_default());
        let bounds = bounds.map(|bounds| (bounds.lower, bounds.upper)).collect();
        let mut nodes = Vec::with_capacity(message.expressions.len());
        for expression in &message.expressions {
            let node = node(&message, &nodes, expression);
            nodes.push(node.map_err(|what| invalid("expressions", format!("expression {} {what}", nodes.len())))?);
        }
        let position = |field, number: u32| match number as usize {
            position if position < nodes.len() => Ok(position),
            position => Err(invalid(field, format!("there is no expression {position}: there are {}", nodes.len()))),
        };
        let results = message.results.iter().map(|&result| position("results", result));
        let results = results.collect::<Result<Vec<_>>>()?;
        let constraints = message.constraints.iter().map(|constraint| {
            let bounds = constraint.bounds.unwrap_or_default();
            Ok((position("constraints", constraint.expression)?, bounds.lower, bounds.upper))
        });
        let constraints = constraints.collect::<Result<Vec<_>>>()?;
        Ok(Map { bounds, nodes, constraints, results, is_empty, message })
    }

    /// The message that the map was made of.
    pub fn message(&self) -> &IndexingMap {
        &self.message
    }

    /// How many numbers a point has: one for each dimension, range and runtime variable, in this order.
    pub fn variables(&self) -> usize {
        self.bounds.len()
    }

    /// How many numbers the map gives for a point.
    pub fn results(&self) -> usize {
        self.results.len()
    }

    /// The results at a point; `None` if the point is outside the domain. The reason of the error is `INVALID_INDEX` for a point of too few or too
    /// many numbers, `SIZE_OVERFLOW` for a result that does not fit `i64`, and for a value on the way that does not fit `i128`.
    pub fn evaluate(&self, point: &[i64]) -> Result<Option<Vec<i64>>> {
        let (results, in_domain) = self.evaluate_batch(point, 1)?;
        Ok(in_domain[0].then_some(results))
    }

    /// The results at `count` points, which stand one after another, and for each point whether it is in the domain. The results for a point outside
    /// the domain are 0. Errors are those of [`Map::evaluate`].
    pub fn evaluate_batch(&self, points: &[i64], count: usize) -> Result<(Vec<i64>, Vec<bool>)> {
        let width = self.bounds.len();
        if count.checked_mul(width) != Some(points.len()) {
            let message = format!("found {} numbers for {count} points of {width} variables", points.len());
            return Err(Error::mistake("INVALID_INDEX", "points", message));
        }
        let mut results = Vec::with_capacity(count * self.results.len());
        let mut in_domain = Vec::with_capacity(count);
        let mut values = vec![0i64; self.nodes.len()];
        for i in 0..count {
            let point = &points[i * width..(i + 1) * width];
            let start = results.len();
            let in_bounds =
                !self.is_empty && point.iter().zip(&self.bounds).all(|(v, (lower, upper))| lower <= v && v <= upper);
            let is_in = in_bounds
                && match self.at(point, &mut values, &mut results) {
                    Ok(is_in) => is_in,
                    Err(_) => {
                        results.truncate(start);
                        self.at(point, &mut vec![0i128; self.nodes.len()], &mut results)
                            .map_err(|what| Error::mistake("SIZE_OVERFLOW", "map", format!("{what} at point {i}")))?
                    }
                };
            results.resize(start + self.results.len(), 0);
            in_domain.push(is_in);
        }
        Ok((results, in_domain))
    }

    /// Adds the results at a point within the bounds, and says whether the point satisfies the constraints.
    fn at<I: Integer>(
        &self,
        point: &[i64],
        values: &mut [I],
        results: &mut Vec<i64>,
    ) -> std::result::Result<bool, &'static str> {
        const TOO_LARGE: &str = "a value does not fit";
        for (i, node) in self.nodes.iter().enumerate() {
            values[i] = match node {
                Node::Constant(value) => I::of(*value),
                Node::Variable(number) => I::of(point[*number]),
                Node::Operation(kind, operands) => {
                    let mut value = values[operands[0]];
                    for &operand in &operands[1..] {
                        let other = values[operand];
                        value = match kind {
                            Kind::Add => value.added(other).ok_or(TOO_LARGE)?,
                            Kind::Multiply => value.multiplied(other).ok_or(TOO_LARGE)?,
                            Kind::FloorDivide => value.divided(other).0,
                            Kind::CeilDivide => match value.divided(other) {
                                (quotient, remainder) if remainder > I::of(0) => quotient.next(),
                                (quotient, _) => quotient,
                            },
                            Kind::Modulo => value.divided(other).1,
                            Kind::Minimum => value.min(other),
                            _ => value.max(other),
                        };
                    }
                    value
                }
            };
        }
        for &(node, lower, upper) in &self.constraints {
            if values[node] < I::of(lower) || values[node] > I::of(upper) {
                return Ok(false);
            }
        }
        for &node in &self.results {
            results.push(values[node].to_i64().ok_or("a result does not fit 64 bits")?);
        }
        Ok(true)
    }
}

fn invalid(field: &str, message: impl Into<String>) -> Error {
    Error::mistake("INVALID_MAP", field, message)
}

/// The node of an expression, whose operands are among the nodes before it.
fn node(message: &IndexingMap, before: &[Node], expression: &Expression) -> std::result::Result<Node, &'static str> {
    let kind = Kind::try_from(expression.kind).unwrap_or(Kind::Unspecified);
    let (dims, ranges) = (message.dimensions.len(), message.ranges.len());
    let (first, count) = match kind {
        Kind::Unspecified => return Err("is of an unknown kind"),
        Kind::Constant => return Ok(Node::Constant(expression.value)),
        Kind::Dimension => (0, dims),
        Kind::Range => (dims, ranges),
        Kind::Runtime => (dims + ranges, message.runtime.len()),
        _ => {
            let operands: Vec<_> = expression.operands.iter().map(|&operand| operand as usize).collect();
            if operands.iter().any(|&operand| operand >= before.len()) {
                return Err("uses itself or a later expression");
            }
            if matches!(kind, Kind::FloorDivide | Kind::CeilDivide | Kind::Modulo) {
                if operands.len() != 2 {
                    return Err("divides, and has not exactly two operands");
                }
                if !matches!(before[operands[1]], Node::Constant(1..)) {
                    return Err("divides by what is not a positive constant");
                }
            } else if operands.len() < 2 {
                return Err("has fewer than two operands");
            }
            return Ok(Node::Operation(kind, operands));
        }
    };
    match usize::try_from(expression.value) {
        Ok(number) if number < count => Ok(Node::Variable(first + number)),
        _ => Err("is a variable that the map does not have"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisions_round_towards_minus_infinity() {
        let text = "(d0) -> (d0 floordiv 4, d0 ceildiv 4, d0 mod 4, min(d0, -2), max(d0, -2)), domain: d0 in [-9, 9]";
        let map = Map::parse(text).unwrap();
        for value in -9..=9i64 {
            let quotient = (value as f64 / 4.0).floor() as i64;
            let ceiling = (value as f64 / 4.0).ceil() as i64;
            let want = vec![quotient, ceiling, value - 4 * quotient, value.min(-2), value.max(-2)];
            assert_eq!(map.evaluate(&[value]).unwrap(), Some(want), "{value}");
        }
    }

    #[test]
    fn values_between_may_exceed_64_bits() {
        let text = "(d0) -> ((d0 * d0) floordiv 9223372036854775807), domain: d0 in [0, 9223372036854775807]";
        assert_eq!(Map::parse(text).unwrap().evaluate(&[i64::MAX]).unwrap(), Some(vec![i64::MAX]));
    }

    #[test]
    fn the_two_widths_agree_near_the_ends() {
        let text = "(d0, d1) -> (d0 + d1, d0 * 3 - d1, (d0 * d1) floordiv 7, (d0 * d1) mod 1000003, d0 ceildiv 3), \
            domain: d0 in [-9223372036854775808, 9223372036854775807], d1 in [-9223372036854775808, 9223372036854775807]";
        let map = Map::parse(text).unwrap();
        let ends = [i64::MIN, i64::MIN + 1, -5, -1, 0, 1, 5, i64::MAX - 1, i64::MAX];
        let (mut fit, mut all) = (0, 0);
        for point in ends.iter().flat_map(|&a| ends.iter().map(move |&b| [a, b])) {
            let (mut narrow, mut wide) = (Vec::new(), Vec::new());
            let is_in = map.at(&point, &mut vec![0i64; map.nodes.len()], &mut narrow);
            let exactly = map.at(&point, &mut vec![0i128; map.nodes.len()], &mut wide);
            all += 1;
            if is_in.is_ok() {
                fit += 1;
                assert_eq!((is_in, narrow), (exactly, wide), "{point:?}");
            }
        }
        assert!(0 < fit && fit < all);
    }

    #[test]
    fn overflow_is_an_error() {
        let map = Map::parse("(d0) -> (d0 * 2), domain: d0 in [0, 9223372036854775807]").unwrap();
        assert_eq!(map.evaluate(&[i64::MAX]).unwrap_err().reason(), "SIZE_OVERFLOW");
        let mut message = Map::parse("(d0) -> (d0), domain: d0 in [0, 9]").unwrap().message;
        for i in 0..40 {
            let operands = vec![i, i];
            message.expressions.push(Expression { kind: Kind::Multiply.into(), value: 0, operands });
        }
        message.results = vec![40];
        assert_eq!(Map::new(message).unwrap().evaluate(&[9]).unwrap_err().reason(), "SIZE_OVERFLOW");
    }

    #[test]
    fn a_point_has_a_number_for_each_variable() {
        let map = Map::parse("(d0) -> (d0), domain: d0 in [0, 3]").unwrap();
        assert_eq!(map.evaluate(&[1, 2]).unwrap_err().reason(), "INVALID_INDEX");
        assert_eq!(map.evaluate_batch(&[1], usize::MAX).unwrap_err().reason(), "INVALID_INDEX");
    }

    #[test]
    fn an_empty_map_has_no_points() {
        assert_eq!(Map::parse("KNOWN EMPTY").unwrap().evaluate(&[]).unwrap(), None);
        assert_eq!(Map::parse("(d0) -> (d0), domain: d0 in [3, 2]").unwrap().evaluate(&[3]).unwrap(), None);
    }
}

use crate::answers::present;
use crate::v1::expression::Kind;
use crate::v1::indexing_map::State;
use crate::v1::{IndexingMap, Interval, MapOutput};
use crate::{Error, Result};

/// An indexing map that can be evaluated without a server.
///
/// ```no_run
/// # async fn example(client: xlashape::Client) -> Result<(), xlashape::Error> {
/// let parsed = client.parse_map("(d0) -> (d0 floordiv 4, d0 mod 4), domain: d0 in [-8, 8]").await?;
/// let map = xlashape::EvaluableMap::try_from(parsed)?;
/// assert_eq!(map.evaluate(&[-3])?, Some(vec![-1, 1]));
/// assert_eq!(map.evaluate(&[9])?, None); // outside the domain
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EvaluableMap {
    message: IndexingMap,
}

impl EvaluableMap {
    /// The message that the map was made of.
    pub fn message(&self) -> &IndexingMap {
        &self.message
    }

    /// How many numbers a point has: one for each dimension, range and runtime variable, in this order.
    pub fn variables(&self) -> usize {
        self.message.dimensions.len() + self.message.ranges.len() + self.message.runtime.len()
    }

    /// How many numbers the map gives for a point.
    pub fn results(&self) -> usize {
        self.message.results.len()
    }

    /// The results at a point; `None` if the point is outside the domain. The reason of the error is `INVALID_INDEX` for a point of too few or too
    /// many numbers.
    pub fn evaluate(&self, point: &[i64]) -> Result<Option<Vec<i64>>> {
        let (results, in_domain) = self.evaluate_batch(point, 1)?;
        Ok(in_domain[0].then_some(results))
    }

    /// The results at `count` points, which stand one after another, and for each point whether it is in the domain. The results for a point outside
    /// the domain are 0. Errors are those of [`EvaluableMap::evaluate`].
    pub fn evaluate_batch(&self, points: &[i64], count: usize) -> Result<(Vec<i64>, Vec<bool>)> {
        let width = self.variables();
        if count.checked_mul(width) != Some(points.len()) {
            let message = format!("found {} numbers for {count} points of {width} variables", points.len());
            return Err(Error::mistake("INVALID_INDEX", "points", message));
        }
        let (mut results, mut in_domain) = (Vec::new(), Vec::new());
        for i in 0..count {
            let (found, is_in) = self.at(&points[i * width..][..width]).unwrap_or_default(); // None is of no checked map
            results.extend(found.iter().map(|&result| if is_in { result } else { 0 }));
            in_domain.push(is_in);
        }
        Ok((results, in_domain))
    }

    /// The results at a point, and whether it is in the domain; `None` for a map whose fields contradict the schema, whatever the point.
    fn at(&self, point: &[i64]) -> Option<(Vec<i64>, bool)> {
        let IndexingMap { dimensions, ranges, runtime, expressions, results, constraints, .. } = &self.message;
        let variable = |value: i64, from: usize, count: usize| point[from..from + count].get(value as usize).copied();
        let get = |values: &[i64], i: u32| values.get(i as usize).copied();
        let mut values = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let value = match (expression.kind(), expression.operands.as_slice()) {
                (Kind::Constant, _) => expression.value,
                (Kind::Dimension, _) => variable(expression.value, 0, dimensions.len())?,
                (Kind::Range, _) => variable(expression.value, dimensions.len(), ranges.len())?,
                (Kind::Runtime, _) => variable(expression.value, dimensions.len() + ranges.len(), runtime.len())?,
                (kind, &[first, second, ref others @ ..]) => {
                    let is_divided = others.is_empty() && expressions.get(second as usize)?.kind() == Kind::Constant;
                    let mut others = expression.operands[1..].iter();
                    others.try_fold(get(&values, first)?, |a, &i| combined(kind, a, get(&values, i)?, is_divided))?
                }
                _ => return None,
            };
            values.push(value);
        }
        let is_within =
            |value, bounds: Option<Interval>| bounds.map_or(0..=0, |one| one.lower..=one.upper).contains(&value);
        let mut variables = point.iter().zip(dimensions.iter().chain(ranges).chain(runtime));
        let mut is_in = self.message.state() != State::KnownEmpty
            && variables.all(|(&value, variable)| is_within(value, variable.bounds));
        for constraint in constraints {
            is_in &= is_within(get(&values, constraint.expression)?, constraint.bounds);
        }
        let results = results.iter().map(|&result| get(&values, result)).collect::<Option<_>>()?;
        Some((results, is_in))
    }
}

/// Checks a map, and prepares it for evaluation with `i64`. The reason of the error is `SIZE_OVERFLOW` if the map is not marked as one that fits, for
/// which there is [`Client::evaluate_map`](crate::Client::evaluate_map), and `INVALID_MAP` if it is undefined or its fields contradict the schema.
impl TryFrom<IndexingMap> for EvaluableMap {
    type Error = Error;

    fn try_from(message: IndexingMap) -> Result<EvaluableMap> {
        let refuse = |reason, field, what| Err(Error::mistake(reason, field, what));
        if State::try_from(message.state).map_or(true, |state| state == State::Undefined) {
            return refuse("INVALID_MAP", "state", "the map is undefined");
        }
        if !message.fits_int64 {
            return refuse("SIZE_OVERFLOW", "fits_int64", "values may not fit int64: ask the server with EvaluateMap");
        }
        // Of a point of zeros: whether there are values is the same at all points.
        let map = EvaluableMap { message };
        match map.at(&vec![0; map.variables()]) {
            Some(_) => Ok(map),
            None => refuse("INVALID_MAP", "expressions", "one is missing, or not of the schema on earlier expressions"),
        }
    }
}

/// The map of an answer.
impl TryFrom<MapOutput> for EvaluableMap {
    type Error = Error;

    fn try_from(answer: MapOutput) -> Result<EvaluableMap> {
        present(answer.map)?.try_into()
    }
}

/// The value of an operation; `None` if there is none. `is_divided` says whether `b` may be a divisor, if it is positive.
fn combined(kind: Kind, a: i64, b: i64, is_divided: bool) -> Option<i64> {
    Some(match kind {
        Kind::Add => a.wrapping_add(b),
        Kind::Multiply => a.wrapping_mul(b),
        Kind::Minimum => a.min(b),
        Kind::Maximum => a.max(b),
        Kind::FloorDivide if is_divided && b > 0 => a.div_euclid(b),
        Kind::CeilDivide if is_divided && b > 0 => a / b + i64::from(a % b > 0),
        Kind::Modulo if is_divided && b > 0 => a.rem_euclid(b),
        _ => return None,
    })
}

use crate::answers::present;
use crate::v1::expression::Kind;
use crate::v1::indexing_map::State;
use crate::v1::{Expression, IndexingMap, Interval, MapOutput};
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
    bounds: Vec<Interval>,   // of each variable: dimensions, ranges, runtime
    nodes: Vec<(Kind, i64)>, // of each expression: the value of a variable is its index in a point
}

impl EvaluableMap {
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
        let width = self.bounds.len();
        if count.checked_mul(width) != Some(points.len()) {
            let message = format!("found {} numbers for {count} points of {width} variables", points.len());
            return Err(Error::mistake("INVALID_INDEX", "points", message));
        }
        let (mut results, mut in_domain, mut values) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..count {
            let is_in = self.at(&points[i * width..(i + 1) * width], &mut values);
            results.extend(self.message.results.iter().map(|&result| if is_in { values[result as usize] } else { 0 }));
            in_domain.push(is_in);
        }
        Ok((results, in_domain))
    }

    /// Computes the values of all expressions at a point, and says whether it is in the domain.
    fn at(&self, point: &[i64], values: &mut Vec<i64>) -> bool {
        let is_within = |value: i64, bounds: &Interval| bounds.lower <= value && value <= bounds.upper;
        if !point.iter().zip(&self.bounds).all(|(&value, bounds)| is_within(value, bounds)) {
            return false;
        }
        values.clear();
        for (&(kind, value), expression) in self.nodes.iter().zip(&self.message.expressions) {
            values.push(match kind {
                Kind::Constant => value,
                Kind::Dimension | Kind::Range | Kind::Runtime => point[value as usize],
                _ => {
                    let operands = expression.operands.iter().map(|&operand| values[operand as usize]);
                    operands.reduce(|a, b| combined(kind, a, b)).unwrap_or_default()
                }
            });
        }
        self.message.state() != State::KnownEmpty
            && self.message.constraints.iter().all(|constraint| {
                is_within(values[constraint.expression as usize], &constraint.bounds.unwrap_or_default())
            })
    }
}

/// Checks a map, and prepares it for evaluation with `i64`. The reason of the error is `SIZE_OVERFLOW` if the map is not marked as one that fits, for
/// which there is [`Client::evaluate_map`](crate::Client::evaluate_map), and `INVALID_MAP` if it is undefined or its fields contradict the schema.
impl TryFrom<IndexingMap> for EvaluableMap {
    type Error = Error;

    fn try_from(message: IndexingMap) -> Result<EvaluableMap> {
        if State::try_from(message.state).map_or(true, |state| state == State::Undefined) {
            let what = format!("a map in state {} cannot be evaluated", message.state);
            return Err(Error::mistake("INVALID_MAP", "state", what));
        }
        if !message.fits_int64 {
            let what = "values of the map may not fit int64: ask the server with EvaluateMap";
            return Err(Error::mistake("SIZE_OVERFLOW", "fits_int64", what));
        }
        let groups = [&message.dimensions, &message.ranges, &message.runtime];
        let mut nodes: Vec<(Kind, i64)> = Vec::new();
        for (i, Expression { kind, value, operands }) in message.expressions.iter().enumerate() {
            let kind = Kind::try_from(*kind).unwrap_or(Kind::Unspecified);
            let variable = |group: usize| {
                let first: usize = groups[..group].iter().map(|group| group.len()).sum();
                (0..groups[group].len() as i64).contains(value).then(|| first as i64 + value)
            };
            let checked = match kind {
                Kind::Unspecified => None,
                Kind::Constant => Some(*value),
                Kind::Dimension => variable(0),
                Kind::Range => variable(1),
                Kind::Runtime => variable(2),
                _ if operands.len() < 2 || operands.iter().any(|&operand| operand as usize >= i) => None,
                Kind::FloorDivide | Kind::CeilDivide | Kind::Modulo => {
                    let is_positive = matches!(nodes[operands[1] as usize], (Kind::Constant, 1..));
                    (is_positive && operands.len() == 2).then_some(0)
                }
                _ => Some(0),
            };
            let what = "is not an expression of the schema on variables and earlier expressions";
            let invalid = || Error::mistake("INVALID_MAP", &format!("expressions[{i}]"), what);
            nodes.push((kind, checked.ok_or_else(invalid)?));
        }
        let constrained = message.constraints.iter().map(|constraint| &constraint.expression);
        if let Some(missing) = message.results.iter().chain(constrained).find(|&&used| used as usize >= nodes.len()) {
            return Err(Error::mistake("INVALID_MAP", "", format!("there is no expression {missing}")));
        }
        let bounds = groups.into_iter().flatten().map(|variable| variable.bounds.unwrap_or_default()).collect();
        Ok(EvaluableMap { message, bounds, nodes })
    }
}

/// The map of an answer.
impl TryFrom<MapOutput> for EvaluableMap {
    type Error = Error;

    fn try_from(answer: MapOutput) -> Result<EvaluableMap> {
        present(answer.map)?.try_into()
    }
}

/// The value of an operation. Divisors are positive.
fn combined(kind: Kind, a: i64, b: i64) -> i64 {
    match kind {
        Kind::Add => a.wrapping_add(b),
        Kind::Multiply => a.wrapping_mul(b),
        Kind::FloorDivide => a.div_euclid(b),
        Kind::CeilDivide => a / b + i64::from(a % b > 0),
        Kind::Modulo => a.rem_euclid(b),
        Kind::Minimum => a.min(b),
        _ => a.max(b),
    }
}

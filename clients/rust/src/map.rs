use crate::answers::present;
use crate::v1::expression::Kind;
use crate::v1::indexing_map::State;
use crate::v1::{IndexingMap, Interval, MapOutput, Variable};
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
        self.groups().iter().map(|group| group.len()).sum()
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
        for point in (0..count).map(|i| &points[i * width..(i + 1) * width]) {
            let values = self.values(point);
            let is_in = self.is_in_domain(point, &values);
            results.extend(self.message.results.iter().map(|&result| if is_in { values[result as usize] } else { 0 }));
            in_domain.push(is_in);
        }
        Ok((results, in_domain))
    }

    fn groups(&self) -> [&[Variable]; 3] {
        [&self.message.dimensions, &self.message.ranges, &self.message.runtime]
    }

    fn is_in_domain(&self, point: &[i64], values: &[i64]) -> bool {
        let is_within = |value: i64, bounds: Option<Interval>| {
            let Interval { lower, upper } = bounds.unwrap_or_default();
            lower <= value && value <= upper
        };
        let mut variables = point.iter().zip(self.groups().into_iter().flatten());
        let mut constraints = self.message.constraints.iter();
        self.message.state() != State::KnownEmpty
            && variables.all(|(&value, variable)| is_within(value, variable.bounds))
            && constraints.all(|constraint| is_within(values[constraint.expression as usize], constraint.bounds))
    }

    /// The values of the expressions at a point, up to the first expression that contradicts the schema.
    fn values(&self, point: &[i64]) -> Vec<i64> {
        let (groups, expressions) = (self.groups(), &self.message.expressions);
        let mut values = Vec::with_capacity(expressions.len());
        for expression in expressions {
            let (kind, operands) = (expression.kind(), &expression.operands);
            let variable = |group: usize| {
                let first: usize = groups[..group].iter().map(|group| group.len()).sum();
                let i = usize::try_from(expression.value).ok().filter(|&i| i < groups[group].len())?;
                Some(point[first + i])
            };
            let is_constant = |i: u32| expressions.get(i as usize).is_some_and(|one| one.kind() == Kind::Constant);
            let operand = |&i: &u32| values.get(i as usize).copied();
            let value = match kind {
                Kind::Unspecified => None,
                Kind::Constant => Some(expression.value),
                Kind::Dimension => variable(0),
                Kind::Range => variable(1),
                Kind::Runtime => variable(2),
                _ if operands.len() < 2 => None,
                Kind::FloorDivide | Kind::CeilDivide | Kind::Modulo
                    if operands.len() > 2 || !is_constant(operands[1]) || operand(&operands[1]) < Some(1) =>
                {
                    None
                }
                _ => operands.iter().map(operand).reduce(|a, b| Some(combined(kind, a?, b?))).flatten(),
            };
            let Some(value) = value else { break };
            values.push(value);
        }
        values
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
        let map = EvaluableMap { message };
        // Of a point of zeros: which values there are is the same at all points.
        let known = map.values(&vec![0; map.variables()]).len();
        let constrained = map.message.constraints.iter().map(|constraint| &constraint.expression);
        let is_known = map.message.results.iter().chain(constrained).all(|&used| (used as usize) < known);
        if known < map.message.expressions.len() || !is_known {
            let what = "is missing, or not one of the schema on variables and earlier expressions";
            return Err(Error::mistake("INVALID_MAP", "expressions", format!("expression {known} {what}")));
        }
        Ok(map)
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

use std::fmt::Display;

use num_traits::{CheckedAdd, CheckedMul, Euclid, NumCast, PrimInt};

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
    is_empty: bool,
    bounds: Vec<Interval>, // of each variable: dimensions, ranges, runtime
    /// The registers are the numbers of a point, and then one value for each of these.
    steps: Vec<Step>,
    constraints: Vec<(usize, Interval)>,
    results: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Constant(i64),
    Operation(Kind, usize, usize), // of two registers
}

impl EvaluableMap {
    /// Checks a map, such as one of an answer of the server, and prepares it for evaluation. The reason of the error is `INVALID_MAP` if the map is
    /// undefined, or if an expression uses a later one, a variable that does not exist, a divisor that is not a positive constant, or too few
    /// operands.
    pub fn new(message: IndexingMap) -> Result<EvaluableMap> {
        let is_empty = match State::try_from(message.state) {
            Ok(State::Unspecified | State::Defined) => false,
            Ok(State::KnownEmpty) => true,
            _ => return Err(invalid("state", format!("a map in state {} cannot be evaluated", message.state))),
        };
        let groups = [&message.dimensions, &message.ranges, &message.runtime];
        let bounds: Vec<_> =
            groups.iter().flat_map(|group| group.iter()).map(|v| v.bounds.unwrap_or_default()).collect();
        let mut steps = Vec::new();
        let mut registers = Vec::with_capacity(message.expressions.len()); // of the expressions
        for (i, expression) in message.expressions.iter().enumerate() {
            let register = added(&message, &bounds, &mut steps, &registers, expression);
            registers.push(register.map_err(|what| invalid(&format!("expressions[{i}]"), what))?);
        }
        let register = |field: &str, i: usize, number: u32| {
            let found = registers.get(number as usize).copied();
            found.ok_or_else(|| invalid(&format!("{field}[{i}]"), format!("there is no expression {number}")))
        };
        let results = message.results.iter().enumerate().map(|(i, &result)| register("results", i, result));
        let results = results.collect::<Result<_>>()?;
        let constraints = message.constraints.iter().enumerate().map(|(i, constraint)| {
            Ok((register("constraints", i, constraint.expression)?, constraint.bounds.unwrap_or_default()))
        });
        let constraints = constraints.collect::<Result<_>>()?;
        Ok(EvaluableMap { is_empty, bounds, steps, constraints, results, message })
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
    /// many numbers, `SIZE_OVERFLOW` for a result that does not fit `i64`, and for a value on the way to the results or to a constraint that does not
    /// fit `i128`.
    pub fn evaluate(&self, point: &[i64]) -> Result<Option<Vec<i64>>> {
        let (results, in_domain) = self.evaluate_batch(point, 1)?;
        Ok(in_domain[0].then_some(results))
    }

    /// The results at `count` points, which stand one after another, and for each point whether it is in the domain. The results for a point outside
    /// the domain are 0. Errors are those of [`EvaluableMap::evaluate`]; the field names the first number of the point.
    pub fn evaluate_batch(&self, points: &[i64], count: usize) -> Result<(Vec<i64>, Vec<bool>)> {
        let width = self.bounds.len();
        if count.checked_mul(width) != Some(points.len()) {
            let message = format!("found {} numbers for {count} points of {width} variables", points.len());
            return Err(Error::mistake("INVALID_INDEX", "points", message));
        }
        let mut results = Vec::with_capacity(count * self.results.len());
        let mut in_domain = Vec::with_capacity(count);
        let mut registers = Vec::with_capacity(width + self.steps.len());
        for i in 0..count {
            let point = &points[i * width..(i + 1) * width];
            let start = results.len();
            let is_in_bounds =
                !self.is_empty && point.iter().zip(&self.bounds).all(|(v, b)| b.lower <= *v && *v <= b.upper);
            let is_in = is_in_bounds
                && self.at::<i64>(point, &mut registers, &mut results).or_else(|_| {
                    results.truncate(start);
                    let found = self.at::<i128>(point, &mut Vec::new(), &mut results);
                    let field = if width > 0 { format!("points[{}]", i * width) } else { "map".into() };
                    found.map_err(|what| Error::mistake("SIZE_OVERFLOW", &field, what))
                })?;
            results.resize(start + self.results.len(), 0);
            in_domain.push(is_in);
        }
        Ok((results, in_domain))
    }

    /// Adds the results at a point within the bounds, and says whether the point satisfies the constraints. A value that does not fit is `None`, and so
    /// is what is computed from it.
    fn at<I: PrimInt + CheckedAdd + CheckedMul + Euclid + Display>(
        &self,
        point: &[i64],
        registers: &mut Vec<Option<I>>,
        results: &mut Vec<i64>,
    ) -> std::result::Result<bool, String> {
        registers.clear();
        registers.extend(point.iter().map(|&value| NumCast::from(value)));
        for step in &self.steps {
            let value = match *step {
                Step::Constant(value) => NumCast::from(value),
                Step::Operation(kind, left, right) => {
                    registers[left].zip(registers[right]).and_then(|(a, b)| combined(kind, a, b))
                }
            };
            registers.push(value);
        }
        let mut fits = true;
        for (register, bounds) in &self.constraints {
            match registers[*register].map(|value| (value, value.to_i64())) {
                Some((_, Some(value))) if bounds.lower <= value && value <= bounds.upper => {}
                Some(_) => return Ok(false),
                None => fits = false,
            }
        }
        if !fits || self.results.iter().any(|&register| registers[register].is_none()) {
            return Err("an expression takes a value of more than 128 bits".into());
        }
        for (i, value) in self.results.iter().filter_map(|&register| registers[register]).enumerate() {
            results.push(value.to_i64().ok_or_else(|| format!("result {i} does not fit int64: {value}"))?);
        }
        Ok(true)
    }
}

/// The map of an answer.
impl TryFrom<MapOutput> for EvaluableMap {
    type Error = Error;

    fn try_from(answer: MapOutput) -> Result<EvaluableMap> {
        EvaluableMap::new(present(answer.map)?)
    }
}

fn invalid(field: &str, message: impl Into<String>) -> Error {
    Error::mistake("INVALID_MAP", field, message)
}

/// The value of an operation, if it fits. Divisors are positive.
fn combined<I: PrimInt + CheckedAdd + CheckedMul + Euclid>(kind: Kind, a: I, b: I) -> Option<I> {
    match kind {
        Kind::Add => a.checked_add(&b),
        Kind::Multiply => a.checked_mul(&b),
        Kind::FloorDivide => Some(a.div_euclid(&b)),
        Kind::CeilDivide if a.rem_euclid(&b).is_zero() => Some(a / b),
        Kind::CeilDivide => Some(a.div_euclid(&b) + I::one()),
        Kind::Modulo => Some(a.rem_euclid(&b)),
        Kind::Minimum => Some(a.min(b)),
        _ => Some(a.max(b)),
    }
}

fn divides(kind: Kind) -> bool {
    matches!(kind, Kind::FloorDivide | Kind::CeilDivide | Kind::Modulo)
}

/// The register of an expression, whose operands are in `registers`. Adds the steps that compute it.
fn added(
    message: &IndexingMap,
    bounds: &[Interval],
    steps: &mut Vec<Step>,
    registers: &[usize],
    expression: &Expression,
) -> std::result::Result<usize, &'static str> {
    let (dims, ranges) = (message.dimensions.len(), message.ranges.len());
    let (first, last) = match expression.kind() {
        Kind::Unspecified => return Err("is of an unknown kind"),
        Kind::Constant => {
            steps.push(Step::Constant(expression.value));
            return Ok(bounds.len() + steps.len() - 1);
        }
        Kind::Dimension => (0, dims),
        Kind::Range => (dims, dims + ranges),
        Kind::Runtime => (dims + ranges, bounds.len()),
        kind => {
            if expression.operands.len() < 2 || (divides(kind) && expression.operands.len() > 2) {
                return Err("has too few operands, or too many");
            }
            let operands = expression.operands.iter().map(|&operand| registers.get(operand as usize).copied());
            let operands: Vec<_> = operands.collect::<Option<_>>().ok_or("uses itself or a later expression")?;
            let divisor = operands[1].checked_sub(bounds.len()).map(|step| steps[step]);
            if divides(kind) && !matches!(divisor, Some(Step::Constant(1..))) {
                return Err("divides by what is not a positive constant");
            }
            return Ok(operands
                .into_iter()
                .reduce(|left, right| {
                    steps.push(Step::Operation(kind, left, right));
                    bounds.len() + steps.len() - 1
                })
                .unwrap_or_default());
        }
    };
    match usize::try_from(expression.value) {
        Ok(number) if first + number < last => Ok(first + number),
        _ => Err("is a variable that the map does not have"),
    }
}

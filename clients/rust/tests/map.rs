//! The evaluation of maps without a server.

use xlashape::v1::expression::Kind;
use xlashape::v1::indexing_map::State;
use xlashape::v1::{Constraint, Expression, IndexingMap, Interval, Variable};
use xlashape::EvaluableMap;

const D0: Expression = Expression { kind: Kind::Dimension as i32, value: 0, operands: vec![] };
const D1: Expression = Expression { kind: Kind::Dimension as i32, value: 1, operands: vec![] };

fn constant(value: i64) -> Expression {
    Expression { kind: Kind::Constant.into(), value, operands: vec![] }
}

fn node(kind: Kind, left: u32, right: u32) -> Expression {
    Expression { kind: kind.into(), value: 0, operands: vec![left, right] }
}

fn message(bounds: &[(i64, i64)], expressions: Vec<Expression>, results: &[u32]) -> IndexingMap {
    let variable = |&(lower, upper)| Variable { bounds: Some(Interval { lower, upper }), ..Default::default() };
    let dimensions = bounds.iter().map(variable).collect();
    IndexingMap { dimensions, expressions, results: results.to_vec(), ..Default::default() }
}

fn map(bounds: &[(i64, i64)], expressions: Vec<Expression>, results: &[u32]) -> EvaluableMap {
    EvaluableMap::new(message(bounds, expressions, results)).unwrap()
}

#[test]
fn divisions_round_towards_minus_infinity() {
    let operations =
        [(Kind::FloorDivide, 1), (Kind::CeilDivide, 1), (Kind::Modulo, 1), (Kind::Minimum, 2), (Kind::Maximum, 2)];
    let nodes = operations.map(|(kind, right)| node(kind, 0, right));
    let map = map(&[(-9, 9)], [D0, constant(4), constant(-2)].into_iter().chain(nodes).collect(), &[3, 4, 5, 6, 7]);
    for value in -9..=9i64 {
        let quotient = (value as f64 / 4.0).floor() as i64;
        let ceiling = (value as f64 / 4.0).ceil() as i64;
        let want = vec![quotient, ceiling, value - 4 * quotient, value.min(-2), value.max(-2)];
        assert_eq!(map.evaluate(&[value]).unwrap(), Some(want), "{value}");
    }
}

#[test]
fn values_between_may_exceed_64_bits() {
    let nodes = vec![D0, constant(i64::MAX), node(Kind::Multiply, 0, 0), node(Kind::FloorDivide, 2, 1)];
    assert_eq!(map(&[(0, i64::MAX)], nodes, &[3]).evaluate(&[i64::MAX]).unwrap(), Some(vec![i64::MAX]));
}

#[test]
fn values_near_the_ends_are_those_of_128_bits() {
    let all = (i64::MIN, i64::MAX);
    let nodes = vec![
        D0,
        D1,
        constant(3),
        constant(7),
        constant(1000003),
        node(Kind::Add, 0, 1),
        node(Kind::Multiply, 0, 1),
        node(Kind::FloorDivide, 6, 3),
        node(Kind::Modulo, 6, 4),
        node(Kind::CeilDivide, 0, 2),
    ];
    let mut message = message(&[all, all], nodes, &[5, 7, 8, 9]);
    message.constraints = vec![Constraint { expression: 5, bounds: Some(Interval { lower: i64::MIN, upper: 9 }) }];
    let map = EvaluableMap::new(message).unwrap();
    let ends = [i64::MIN, i64::MIN + 1, -5, -1, 0, 1, 5, i64::MAX - 1, i64::MAX];
    let mut outcomes = [0; 3];
    for (a, b) in ends.iter().flat_map(|&a| ends.iter().map(move |&b| (i128::from(a), i128::from(b)))) {
        let results = [a + b, (a * b).div_euclid(7), (a * b).rem_euclid(1000003), -((-a).div_euclid(3))];
        let fitting: Option<Vec<_>> = results.iter().map(|&result| i64::try_from(result).ok()).collect();
        match map.evaluate(&[a as i64, b as i64]) {
            Ok(None) => {
                assert!(!(i128::from(i64::MIN)..=9).contains(&results[0]), "{a} {b}");
                outcomes[0] += 1;
            }
            Ok(found) => {
                assert!((i128::from(i64::MIN)..=9).contains(&results[0]), "{a} {b}");
                assert_eq!(found, fitting, "{a} {b}");
                outcomes[1] += 1;
            }
            Err(error) => {
                assert_eq!((error.reason(), fitting), ("SIZE_OVERFLOW", None), "{a} {b}");
                outcomes[2] += 1;
            }
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}

#[test]
fn overflow_is_an_error() {
    let doubled = map(&[(0, i64::MAX)], vec![D0, constant(2), node(Kind::Multiply, 0, 1)], &[2]);
    assert_eq!(doubled.evaluate(&[i64::MAX]).unwrap_err().reason(), "SIZE_OVERFLOW");
    let mut message = message(&[(0, 9)], vec![D0], &[0]);
    message.expressions.extend((0..40).map(|i| node(Kind::Multiply, i, i)));
    message.results = vec![40];
    assert_eq!(EvaluableMap::new(message).unwrap().evaluate(&[9]).unwrap_err().reason(), "SIZE_OVERFLOW");
}

#[test]
fn a_point_has_a_number_for_each_variable() {
    let map = map(&[(0, 3)], vec![D0], &[0]);
    assert_eq!(map.evaluate(&[1, 2]).unwrap_err().reason(), "INVALID_INDEX");
    assert_eq!(map.evaluate_batch(&[1], usize::MAX).unwrap_err().reason(), "INVALID_INDEX");
}

#[test]
fn an_empty_map_has_no_points() {
    let empty = IndexingMap { state: State::KnownEmpty.into(), ..Default::default() };
    assert_eq!(EvaluableMap::new(empty).unwrap().evaluate(&[]).unwrap(), None);
    assert_eq!(map(&[(3, 2)], vec![D0], &[0]).evaluate(&[3]).unwrap(), None);
}

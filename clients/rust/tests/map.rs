//! The evaluation of maps without a server.

use xlashape::v1::expression::Kind;
use xlashape::v1::{Expression, IndexingMap, Interval, Variable};
use xlashape::EvaluableMap;

/// d0 with any value, combined with 1.
fn message(kind: Kind) -> IndexingMap {
    let constant = Expression { kind: Kind::Constant.into(), value: 1, operands: vec![] };
    let operation = Expression { kind: kind.into(), value: 0, operands: vec![0, 1] };
    let bounds = Some(Interval { lower: i64::MIN, upper: i64::MAX });
    IndexingMap {
        dimensions: vec![Variable { bounds, ..Default::default() }],
        expressions: vec![Expression { kind: Kind::Dimension.into(), ..Default::default() }, constant, operation],
        results: vec![2],
        ..Default::default()
    }
}

#[test]
fn a_map_that_does_not_fit_is_for_the_server() {
    assert_eq!(EvaluableMap::try_from(message(Kind::Add)).unwrap_err().reason(), "SIZE_OVERFLOW");
}

#[test]
fn a_map_that_lies_wraps_around() {
    for (kind, result) in [(Kind::Add, i64::MIN), (Kind::Multiply, i64::MAX)] {
        let map = EvaluableMap::try_from(IndexingMap { fits_int64: true, ..message(kind) }).unwrap();
        assert_eq!(map.evaluate(&[i64::MAX]).unwrap(), Some(vec![result]));
    }
}

#[test]
fn a_point_has_a_number_for_each_variable() {
    let map = EvaluableMap::try_from(IndexingMap { fits_int64: true, ..message(Kind::Add) }).unwrap();
    assert_eq!(map.evaluate_batch(&[1], usize::MAX).unwrap_err().reason(), "INVALID_INDEX");
}

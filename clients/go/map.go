package xlashape

import (
	"slices"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// An EvaluableMap is an indexing map that can be evaluated without a server. It is safe for use by several goroutines at once.
type EvaluableMap struct {
	message   *xlashapev1.IndexingMap
	variables []*xlashapev1.Variable // dimensions, ranges, runtime
}

// NewEvaluableMap checks a map, such as one of an answer of the server, which must not change afterwards. The Reason of the error is SIZE_OVERFLOW if the
// map is not marked as one that fits int64, for which there is Client.EvaluateMap, and INVALID_MAP if the map is undefined or its fields contradict the
// schema.
func NewEvaluableMap(message *xlashapev1.IndexingMap) (*EvaluableMap, error) {
	if state := message.GetState(); state < xlashapev1.IndexingMap_STATE_UNSPECIFIED || state >= xlashapev1.IndexingMap_STATE_UNDEFINED {
		return nil, mistake("INVALID_MAP", "state", "a map in state %v cannot be evaluated", state)
	}
	if !message.GetFitsInt64() {
		return nil, mistake("SIZE_OVERFLOW", "fits_int64", "values of the map may not fit int64: ask the server with EvaluateMap")
	}
	m := &EvaluableMap{message, slices.Concat(message.GetDimensions(), message.GetRanges(), message.GetRuntime())}
	if _, _, isMap := m.at(make([]int64, m.Variables())); !isMap { // at no point, if not at this one
		return nil, mistake("INVALID_MAP", "expressions", "an expression is missing, or not one of the schema on variables and earlier expressions")
	}
	return m, nil
}

// Message returns the message that the map was made of.
func (m *EvaluableMap) Message() *xlashapev1.IndexingMap { return m.message }

// Variables returns how many numbers a point has: one for each dimension, range and runtime variable, in this order.
func (m *EvaluableMap) Variables() int { return len(m.variables) }

// Results returns how many numbers the map gives for a point.
func (m *EvaluableMap) Results() int { return len(m.message.GetResults()) }

// Evaluate returns the results at a point, and whether the point is in the domain; without results if it is not. The Reason of the error is
// INVALID_INDEX for a point of too few or too many numbers.
func (m *EvaluableMap) Evaluate(point ...int64) (results []int64, inDomain bool, err error) {
	all, in, err := m.EvaluateBatch(point, 1)
	if err != nil || !in[0] {
		return nil, false, err
	}
	return all, true, nil
}

// EvaluateBatch returns the results at `count` points, which stand one after another, and for each point whether it is in the domain. The results for
// a point outside the domain are 0. Errors are those of Evaluate.
func (m *EvaluableMap) EvaluateBatch(points []int64, count int) (results []int64, inDomain []bool, err error) {
	width := m.Variables()
	if count < 0 || len(points) != count*width {
		return nil, nil, mistake("INVALID_INDEX", "points", "%d points of %d variables have %d numbers, found %d", count, width, count*width, len(points))
	}
	results, inDomain = make([]int64, 0, count*m.Results()), make([]bool, count)
	for i := range inDomain {
		var found []int64
		found, inDomain[i], _ = m.at(points[i*width : (i+1)*width])
		results = append(results, found...)
	}
	return results, inDomain, nil
}

// at returns the results at a point, which are 0 outside the domain, and whether the point is in the domain. It is no map where fields contradict the schema.
func (m *EvaluableMap) at(point []int64) (results []int64, inDomain, isMap bool) {
	expressions := m.message.GetExpressions()
	ranges := len(m.message.GetDimensions())
	runtime := ranges + len(m.message.GetRanges())
	values := make([]int64, 0, len(expressions))
	inDomain, isMap = m.message.GetState() != xlashapev1.IndexingMap_STATE_KNOWN_EMPTY, true
	get := func(from []int64, i int64) int64 {
		if i < 0 || i >= int64(len(from)) {
			isMap = false
			return 0
		}
		return from[i]
	}
	check := func(value int64, bounds *xlashapev1.Interval) {
		inDomain = inDomain && bounds.GetLower() <= value && value <= bounds.GetUpper()
	}
	for _, expression := range expressions {
		kind, value, operands := expression.GetKind(), expression.GetValue(), expression.GetOperands()
		switch operation := operations[kind]; {
		case kind == xlashapev1.Expression_KIND_CONSTANT:
		case kind == xlashapev1.Expression_KIND_DIMENSION:
			value = get(point[:ranges], value)
		case kind == xlashapev1.Expression_KIND_RANGE:
			value = get(point[ranges:runtime], value)
		case kind == xlashapev1.Expression_KIND_RUNTIME:
			value = get(point[runtime:], value)
		case operation == nil || len(operands) < 2:
			return nil, false, false
		default:
			value = get(values, int64(operands[0]))
			for _, operand := range operands[1:] {
				b := get(values, int64(operand))
				if kind >= xlashapev1.Expression_KIND_FLOOR_DIVIDE && kind <= xlashapev1.Expression_KIND_MODULO &&
					(len(operands) > 2 || b <= 0 || expressions[operand].GetKind() != xlashapev1.Expression_KIND_CONSTANT) {
					return nil, false, false
				}
				value = operation(value, b)
			}
		}
		values = append(values, value)
	}
	for i, variable := range m.variables {
		check(point[i], variable.GetBounds())
	}
	for _, constraint := range m.message.GetConstraints() {
		check(get(values, int64(constraint.GetExpression())), constraint.GetBounds())
	}
	for _, used := range m.message.GetResults() {
		results = append(results, get(values, int64(used)))
	}
	if !inDomain {
		clear(results)
	}
	return results, inDomain, isMap
}

// operations have the value of each kind. Divisors are positive; x >> 63 is -1 for a negative x, and 0 otherwise. Sums and products wrap around.
var operations = map[xlashapev1.Expression_Kind]func(a, b int64) int64{
	xlashapev1.Expression_KIND_ADD:          func(a, b int64) int64 { return a + b },
	xlashapev1.Expression_KIND_MULTIPLY:     func(a, b int64) int64 { return a * b },
	xlashapev1.Expression_KIND_FLOOR_DIVIDE: func(a, b int64) int64 { return a/b + a%b>>63 },
	xlashapev1.Expression_KIND_CEIL_DIVIDE:  func(a, b int64) int64 { return a/b - -(a%b)>>63 },
	xlashapev1.Expression_KIND_MODULO:       func(a, b int64) int64 { return a%b + b&(a%b>>63) },
	xlashapev1.Expression_KIND_MINIMUM:      func(a, b int64) int64 { return min(a, b) },
	xlashapev1.Expression_KIND_MAXIMUM:      func(a, b int64) int64 { return max(a, b) },
}

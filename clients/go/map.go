package xlashape

import (
	"slices"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// An EvaluableMap is an indexing map that can be evaluated without a server. It is safe for use by several goroutines at once.
type EvaluableMap struct {
	message   *xlashapev1.IndexingMap
	variables []*xlashapev1.Variable // dimensions, ranges, runtime
	first     [4]int64               // the number of variables before each group, and of all
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
	m := &EvaluableMap{message: message}
	for i, group := range [][]*xlashapev1.Variable{message.GetDimensions(), message.GetRanges(), message.GetRuntime()} {
		m.variables = append(m.variables, group...)
		m.first[i+1] = int64(len(m.variables))
	}
	known := len(m.values(make([]int64, m.Variables()))) // of a point of zeros: which values there are is the same at all points
	wrong := known < len(message.GetExpressions()) || slices.ContainsFunc(message.GetResults(), func(used uint32) bool { return int64(used) >= int64(known) })
	for _, constraint := range message.GetConstraints() {
		wrong = wrong || int64(constraint.GetExpression()) >= int64(known)
	}
	if wrong {
		return nil, mistake("INVALID_MAP", "expressions", "expression %d is missing, or not one of the schema on variables and earlier expressions", known)
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
	results, inDomain = make([]int64, count*m.Results()), make([]bool, count)
	for i := range count {
		point := points[i*width : (i+1)*width]
		values := m.values(point)
		inDomain[i] = m.isInDomain(point, values)
		for k, used := range m.message.GetResults() {
			if inDomain[i] {
				results[i*m.Results()+k] = values[used]
			}
		}
	}
	return results, inDomain, nil
}

func (m *EvaluableMap) isInDomain(point, values []int64) bool {
	isOutside := func(value int64, bounds *xlashapev1.Interval) bool {
		return value < bounds.GetLower() || value > bounds.GetUpper()
	}
	for i, variable := range m.variables {
		if isOutside(point[i], variable.GetBounds()) {
			return false
		}
	}
	for _, constraint := range m.message.GetConstraints() {
		if isOutside(values[constraint.GetExpression()], constraint.GetBounds()) {
			return false
		}
	}
	return m.message.GetState() != xlashapev1.IndexingMap_STATE_KNOWN_EMPTY
}

// values are those of the expressions at a point, up to the first expression that contradicts the schema. Sums and products wrap around.
func (m *EvaluableMap) values(point []int64) []int64 {
	expressions := m.message.GetExpressions()
	values := make([]int64, 0, len(expressions))
	for _, expression := range expressions {
		kind, value, operands := expression.GetKind(), expression.GetValue(), expression.GetOperands()
		operation := combined[kind]
		isLater := func(operand uint32) bool { return int64(operand) >= int64(len(values)) }
		switch {
		case kind == xlashapev1.Expression_KIND_CONSTANT:
		case kind >= xlashapev1.Expression_KIND_DIMENSION && kind <= xlashapev1.Expression_KIND_RUNTIME:
			group := kind - xlashapev1.Expression_KIND_DIMENSION
			if value < 0 || value >= m.first[group+1]-m.first[group] {
				return values
			}
			value = point[m.first[group]+value]
		case operation == nil || len(operands) < 2 || slices.ContainsFunc(operands, isLater):
			return values
		default:
			value = values[operands[0]]
			isDivision := kind >= xlashapev1.Expression_KIND_FLOOR_DIVIDE && kind <= xlashapev1.Expression_KIND_MODULO
			for _, operand := range operands[1:] {
				isDivisor := expressions[operand].GetKind() == xlashapev1.Expression_KIND_CONSTANT && values[operand] > 0
				if isDivision && (len(operands) > 2 || !isDivisor) {
					return values
				}
				value = operation(value, values[operand])
			}
		}
		values = append(values, value)
	}
	return values
}

// combined has the value of each operation. Divisors are positive; x >> 63 is -1 for a negative x, and 0 otherwise.
var combined = map[xlashapev1.Expression_Kind]func(a, b int64) int64{
	xlashapev1.Expression_KIND_ADD:          func(a, b int64) int64 { return a + b },
	xlashapev1.Expression_KIND_MULTIPLY:     func(a, b int64) int64 { return a * b },
	xlashapev1.Expression_KIND_FLOOR_DIVIDE: func(a, b int64) int64 { return a/b + a%b>>63 },
	xlashapev1.Expression_KIND_CEIL_DIVIDE:  func(a, b int64) int64 { return a/b - -(a%b)>>63 },
	xlashapev1.Expression_KIND_MODULO:       func(a, b int64) int64 { return a%b + b&(a%b>>63) },
	xlashapev1.Expression_KIND_MINIMUM:      func(a, b int64) int64 { return min(a, b) },
	xlashapev1.Expression_KIND_MAXIMUM:      func(a, b int64) int64 { return max(a, b) },
}

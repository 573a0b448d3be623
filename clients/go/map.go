package xlashape

import (
	"slices"
	"strconv"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// An EvaluableMap is an indexing map that can be evaluated without a server. It is safe for use by several goroutines at once.
type EvaluableMap struct {
	message *xlashapev1.IndexingMap
	bounds  []*xlashapev1.Interval // of the variables: dimensions, ranges, runtime
	nodes   []node
}

// A node is an expression. The value of a variable is its index in a point.
type node struct {
	kind     xlashapev1.Expression_Kind
	value    int64
	operands []uint32
}

// NewEvaluableMap checks a map, such as one of an answer of the server, and prepares it for evaluation with int64. The message must not change afterwards.
// The Reason of the error is SIZE_OVERFLOW if the map is not marked as one that fits int64, for which there is Client.EvaluateMap, and INVALID_MAP if
// the map is undefined or its fields contradict the schema.
func NewEvaluableMap(message *xlashapev1.IndexingMap) (*EvaluableMap, error) {
	if state := message.GetState(); state < xlashapev1.IndexingMap_STATE_UNSPECIFIED || state >= xlashapev1.IndexingMap_STATE_UNDEFINED {
		return nil, mistake("INVALID_MAP", "state", "a map in state %v cannot be evaluated", state)
	}
	if !message.GetFitsInt64() {
		return nil, mistake("SIZE_OVERFLOW", "fits_int64", "values of the map may not fit int64: ask the server with EvaluateMap")
	}
	m := &EvaluableMap{message: message}
	groups := [][]*xlashapev1.Variable{message.GetDimensions(), message.GetRanges(), message.GetRuntime()}
	first := [3]int64{0, int64(len(groups[0])), int64(len(groups[0]) + len(groups[1]))} // variable of each group
	for _, variable := range slices.Concat(groups...) {
		m.bounds = append(m.bounds, variable.GetBounds())
	}
	for i, expression := range message.GetExpressions() {
		n := node{expression.GetKind(), expression.GetValue(), expression.GetOperands()}
		isValid := n.kind == xlashapev1.Expression_KIND_CONSTANT
		if n.kind >= xlashapev1.Expression_KIND_DIMENSION && n.kind <= xlashapev1.Expression_KIND_RUNTIME {
			group := n.kind - xlashapev1.Expression_KIND_DIMENSION
			isValid = n.value >= 0 && n.value < int64(len(groups[group]))
			n.value += first[group]
		} else if n.kind >= xlashapev1.Expression_KIND_ADD && n.kind <= xlashapev1.Expression_KIND_MAXIMUM {
			isValid = len(n.operands) >= 2 && !slices.ContainsFunc(n.operands, func(operand uint32) bool { return int64(operand) >= int64(i) })
			if isValid && n.kind >= xlashapev1.Expression_KIND_FLOOR_DIVIDE && n.kind <= xlashapev1.Expression_KIND_MODULO {
				divisor := m.nodes[n.operands[1]]
				isValid = len(n.operands) == 2 && divisor.kind == xlashapev1.Expression_KIND_CONSTANT && divisor.value > 0
			}
		}
		if !isValid {
			return nil, mistake("INVALID_MAP", "expressions["+strconv.Itoa(i)+"]", "is not an expression of the schema on variables and earlier expressions")
		}
		m.nodes = append(m.nodes, n)
	}
	used := slices.Clone(message.GetResults())
	for _, constraint := range message.GetConstraints() {
		used = append(used, constraint.GetExpression())
	}
	for _, expression := range used {
		if int64(expression) >= int64(len(m.nodes)) {
			return nil, mistake("INVALID_MAP", "", "there is no expression %d", expression)
		}
	}
	return m, nil
}

// Message returns the message that the map was made of.
func (m *EvaluableMap) Message() *xlashapev1.IndexingMap { return m.message }

// Variables returns how many numbers a point has: one for each dimension, range and runtime variable, in this order.
func (m *EvaluableMap) Variables() int { return len(m.bounds) }

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
	values := make([]int64, len(m.nodes))
	for i := range count {
		inDomain[i] = m.evaluate(points[i*width:(i+1)*width], values)
		for _, expression := range m.message.GetResults() {
			if inDomain[i] {
				results = append(results, values[expression])
			} else {
				results = append(results, 0)
			}
		}
	}
	return results, inDomain, nil
}

// evaluate computes the values of all expressions, and returns whether the point is in the domain.
func (m *EvaluableMap) evaluate(point, values []int64) bool {
	for i, bounds := range m.bounds {
		if point[i] < bounds.GetLower() || point[i] > bounds.GetUpper() {
			return false
		}
	}
	for i := range m.nodes {
		switch n := &m.nodes[i]; {
		case n.kind == xlashapev1.Expression_KIND_CONSTANT:
			values[i] = n.value
		case n.kind <= xlashapev1.Expression_KIND_RUNTIME:
			values[i] = point[n.value]
		default:
			value := values[n.operands[0]]
			for _, operand := range n.operands[1:] {
				value = combined(n.kind, value, values[operand])
			}
			values[i] = value
		}
	}
	for _, constraint := range m.message.GetConstraints() {
		value, bounds := values[constraint.GetExpression()], constraint.GetBounds()
		if value < bounds.GetLower() || value > bounds.GetUpper() {
			return false
		}
	}
	return m.message.GetState() != xlashapev1.IndexingMap_STATE_KNOWN_EMPTY
}

// combined is the value of an operation. Divisors are positive.
func combined(kind xlashapev1.Expression_Kind, a, b int64) int64 {
	switch kind {
	case xlashapev1.Expression_KIND_ADD:
		return a + b
	case xlashapev1.Expression_KIND_MULTIPLY:
		return a * b
	case xlashapev1.Expression_KIND_FLOOR_DIVIDE:
		if a%b < 0 {
			return a/b - 1
		}
		return a / b
	case xlashapev1.Expression_KIND_CEIL_DIVIDE:
		if a%b > 0 {
			return a/b + 1
		}
		return a / b
	case xlashapev1.Expression_KIND_MODULO:
		if a%b < 0 {
			return a%b + b
		}
		return a % b
	case xlashapev1.Expression_KIND_MINIMUM:
		return min(a, b)
	}
	return max(a, b)
}

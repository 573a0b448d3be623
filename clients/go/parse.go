package xlashape

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"github.com/xlashape/xlashape/clients/go/xlashapev1"
)

// maxNesting bounds parentheses within each other in the text of a map.
const maxNesting = 10_000

// ParseMap reads a map in text, as XLA or as MLIR writes it:
//
//	(d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3], d0 + s0 in [0, 11]
//
// Runtime variables stand in braces: (d0){rt0} -> (d0 + rt0); the lines after "runtime variables:", which say where their values come from, are not
// read. Expressions have +, -, *, / or floordiv, ceildiv, mod, min(a, b) and max(a, b). The Reason of the error is PARSE, with line and column, or one
// of NewMap.
func ParseMap(text string) (*Map, error) {
	message := &xlashapev1.IndexingMap{}
	text, _, _ = strings.Cut(text, "\nruntime variables:")
	p := &mapParser{text: text, message: message, variables: map[string]uint32{}}
	switch strings.Join(strings.Fields(text), " ") {
	case "KNOWN EMPTY":
		message.State = xlashapev1.IndexingMap_STATE_KNOWN_EMPTY
	case "UNDEFINED":
		message.State = xlashapev1.IndexingMap_STATE_UNDEFINED
	default:
		p.next()
		p.parse()
		if p.err != nil {
			return nil, p.err
		}
	}
	return NewMap(message)
}

// mapParser reads a map by recursive descent. After the first mistake every token is the end of the text, so that all loops end.
type mapParser struct {
	text       string
	start, end int // the current token is text[start:end]; empty at the end of the text
	message    *xlashapev1.IndexingMap
	variables  map[string]uint32 // the expression of each variable
	nesting    int
	err        error
}

func (p *mapParser) token() string { return p.text[p.start:p.end] }

func (p *mapParser) next() {
	p.start = p.end
	for p.start < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.start]) >= 0 {
		p.start++
	}
	p.end = p.start
	for p.end < len(p.text) && isWordByte(p.text[p.end]) {
		p.end++
	}
	if p.end == p.start && p.end < len(p.text) {
		_, size := utf8.DecodeRuneInString(p.text[p.end:])
		p.end += size
		if p.token() == "-" && strings.HasPrefix(p.text[p.end:], ">") {
			p.end++
		}
	}
}

func isWordByte(b byte) bool {
	return b == '_' || b == '$' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func (p *mapParser) fail(expected string) {
	if p.err != nil {
		return
	}
	before := p.text[:p.start]
	lineStart := strings.LastIndexByte(before, '\n') + 1
	found := "the end of the text"
	if p.token() != "" {
		found = strconv.Quote(p.token())
	}
	p.err = &Error{
		Code: codes.InvalidArgument, Reason: "PARSE", Message: "expected " + expected + ", found " + found,
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[lineStart:]) + 1,
	}
	p.start, p.end = len(p.text), len(p.text)
}

// take passes a token that is as given.
func (p *mapParser) take(token string) bool {
	if p.token() != token {
		return false
	}
	p.next()
	return true
}

func (p *mapParser) expect(token string) {
	if !p.take(token) {
		p.fail(strconv.Quote(token))
	}
}

func (p *mapParser) parse() {
	p.message.Dimensions = p.declared("(", ")", xlashapev1.Expression_KIND_DIMENSION)
	if p.token() == "[" {
		p.message.Ranges = p.declared("[", "]", xlashapev1.Expression_KIND_RANGE)
	}
	if p.token() == "{" {
		p.message.Runtime = p.declared("{", "}", xlashapev1.Expression_KIND_RUNTIME)
	}
	p.expect("->")
	p.expect("(")
	for !p.take(")") && p.err == nil {
		p.message.Results = append(p.message.Results, p.expression())
		if p.token() != ")" {
			p.expect(",")
		}
	}
	p.take(",")
	isBounded := map[uint32]bool{}
	if p.take("domain") {
		p.expect(":")
		for p.token() != "" {
			p.bounds(isBounded)
			if !p.take(",") {
				break
			}
		}
	}
	if p.token() != "" {
		p.fail("the end of the text")
	}
	if len(isBounded) < len(p.variables) {
		p.fail("a domain with an interval for every variable")
	}
}

// declared reads the names of variables, and makes an expression of each.
func (p *mapParser) declared(open, end string, kind xlashapev1.Expression_Kind) (variables []*xlashapev1.Variable) {
	p.expect(open)
	for !p.take(end) && p.err == nil {
		name := p.token()
		if _, taken := p.variables[name]; taken || name == "" || !isWordByte(name[0]) || name[0] <= '9' {
			p.fail("the name of a new variable")
			return nil
		}
		number := int64(len(variables))
		variable := &xlashapev1.Variable{Name: name}
		prefix := map[xlashapev1.Expression_Kind]string{
			xlashapev1.Expression_KIND_DIMENSION: "d", xlashapev1.Expression_KIND_RANGE: "s", xlashapev1.Expression_KIND_RUNTIME: "rt",
		}[kind]
		if name == prefix+strconv.FormatInt(number, 10) {
			variable.Name = ""
		}
		variables = append(variables, variable)
		p.variables[name] = p.add(&xlashapev1.Expression{Kind: kind, Value: number})
		p.next()
		if p.token() != end {
			p.expect(",")
		}
	}
	return variables
}

// bounds reads `expression in [lower, upper]`: of a variable its bounds, of anything else a constraint.
func (p *mapParser) bounds(isBounded map[uint32]bool) {
	if p.take("is_simplified") {
		p.expect(":")
		p.next()
		return
	}
	expression := p.expression()
	p.expect("in")
	p.expect("[")
	interval := &xlashapev1.Interval{Lower: p.integer()}
	p.expect(",")
	interval.Upper = p.integer()
	p.expect("]")
	if p.err != nil {
		return
	}
	node := p.message.Expressions[expression]
	var group []*xlashapev1.Variable
	switch node.Kind {
	case xlashapev1.Expression_KIND_DIMENSION:
		group = p.message.Dimensions
	case xlashapev1.Expression_KIND_RANGE:
		group = p.message.Ranges
	case xlashapev1.Expression_KIND_RUNTIME:
		group = p.message.Runtime
	default:
		p.message.Constraints = append(p.message.Constraints, &xlashapev1.Constraint{Expression: expression, Bounds: interval})
		return
	}
	variable := group[node.Value]
	if isBounded[expression] {
		interval.Lower, interval.Upper = max(interval.Lower, variable.Bounds.Lower), min(interval.Upper, variable.Bounds.Upper)
	}
	variable.Bounds, isBounded[expression] = interval, true
}

func (p *mapParser) integer() int64 {
	sign := ""
	if p.take("-") {
		sign = "-"
	}
	value, err := strconv.ParseInt(sign+p.token(), 10, 64)
	if err != nil || strings.ContainsAny(p.token(), "_+-") {
		p.fail("an integer of 64 bits")
		return 0
	}
	p.next()
	return value
}

func (p *mapParser) add(expression *xlashapev1.Expression) uint32 {
	p.message.Expressions = append(p.message.Expressions, expression)
	return uint32(len(p.message.Expressions) - 1)
}

func (p *mapParser) operation(kind xlashapev1.Expression_Kind, operands ...uint32) uint32 {
	return p.add(&xlashapev1.Expression{Kind: kind, Operands: operands})
}

func (p *mapParser) negative(of uint32) uint32 {
	minusOne := p.add(&xlashapev1.Expression{Kind: xlashapev1.Expression_KIND_CONSTANT, Value: -1})
	return p.operation(xlashapev1.Expression_KIND_MULTIPLY, of, minusOne)
}

func (p *mapParser) expression() uint32 {
	sum := p.product()
	for {
		switch {
		case p.take("+"):
			sum = p.operation(xlashapev1.Expression_KIND_ADD, sum, p.product())
		case p.take("-"):
			sum = p.operation(xlashapev1.Expression_KIND_ADD, sum, p.negative(p.product()))
		default:
			return sum
		}
	}
}

var binaryKinds = map[string]xlashapev1.Expression_Kind{
	"*": xlashapev1.Expression_KIND_MULTIPLY, "/": xlashapev1.Expression_KIND_FLOOR_DIVIDE, "floordiv": xlashapev1.Expression_KIND_FLOOR_DIVIDE,
	"ceildiv": xlashapev1.Expression_KIND_CEIL_DIVIDE, "mod": xlashapev1.Expression_KIND_MODULO,
}

func (p *mapParser) product() uint32 {
	product := p.unary()
	for {
		kind, is := binaryKinds[p.token()]
		if !is {
			return product
		}
		p.next()
		product = p.operation(kind, product, p.unary())
	}
}

func (p *mapParser) unary() uint32 {
	if p.nesting++; p.nesting > maxNesting {
		p.fail("at most " + strconv.Itoa(maxNesting) + " levels of an expression")
	}
	defer func() { p.nesting-- }()
	token := p.token()
	node, isVariable := p.variables[token]
	switch {
	case isVariable:
		p.next()
		return node
	case token != "" && token[0] >= '0' && token[0] <= '9':
		return p.add(&xlashapev1.Expression{Kind: xlashapev1.Expression_KIND_CONSTANT, Value: p.integer()})
	case p.take("-"):
		// The least int64 has no positive counterpart, so the sign belongs to the number.
		if digits := p.token(); digits != "" && digits[0] >= '0' && digits[0] <= '9' {
			if value, err := strconv.ParseInt("-"+digits, 10, 64); err == nil {
				p.next()
				return p.add(&xlashapev1.Expression{Kind: xlashapev1.Expression_KIND_CONSTANT, Value: value})
			}
		}
		return p.negative(p.unary())
	case p.take("("):
		inner := p.expression()
		p.expect(")")
		return inner
	case token == "min" || token == "max":
		kind := xlashapev1.Expression_KIND_MINIMUM
		if token == "max" {
			kind = xlashapev1.Expression_KIND_MAXIMUM
		}
		p.next()
		p.expect("(")
		first := p.expression()
		p.expect(",")
		second := p.expression()
		p.expect(")")
		return p.operation(kind, first, second)
	}
	p.fail("an expression")
	return 0
}

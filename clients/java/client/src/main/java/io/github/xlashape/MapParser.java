package io.github.xlashape;

import io.github.xlashape.v1.Constraint;
import io.github.xlashape.v1.Expression;
import io.github.xlashape.v1.Expression.Kind;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.Interval;
import io.github.xlashape.v1.Variable;
import io.grpc.Status;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * Reads the text of a map.
 *
 * <pre>
 * map        = "KNOWN EMPTY" | "UNDEFINED" | "(" names ")" [ "[" names "]" ] [ "{" names "}" ] "-&gt;" "(" expressions ")" [ "," ] [ domain ]
 * domain     = "domain" ":" { bounds "," }
 * bounds     = expression "in" "[" integer "," integer "]" | "is_simplified" ":" word
 * expression = expression ( "+" | "-" | "*" | "/" | "floordiv" | "ceildiv" | "mod" ) expression | "-" expression | "(" expression ")"
 *            | ( "min" | "max" ) "(" expression "," expression ")" | name | integer
 * </pre>
 *
 * <p>Operators that wait for operands stand on a stack of its own, so that the depth of an expression is not bounded.
 */
final class MapParser {
  private enum Operator {
    PARENTHESIS(0),
    FIRST_OF_MINIMUM(0),
    FIRST_OF_MAXIMUM(0),
    MINIMUM(0),
    MAXIMUM(0),
    ADD(1),
    SUBTRACT(1),
    MULTIPLY(2),
    FLOOR_DIVIDE(2),
    CEIL_DIVIDE(2),
    MODULO(2),
    NEGATE(3);

    final int precedence; // 0: an opening parenthesis

    Operator(int precedence) {
      this.precedence = precedence;
    }
  }

  private static final Map<String, Operator> BINARY = Map.of(
      "+", Operator.ADD, "-", Operator.SUBTRACT, "*", Operator.MULTIPLY, "/", Operator.FLOOR_DIVIDE, "floordiv", Operator.FLOOR_DIVIDE,
      "ceildiv", Operator.CEIL_DIVIDE, "mod", Operator.MODULO);

  private final String text;
  private final IndexingMap.Builder map = IndexingMap.newBuilder();
  private final Map<String, Integer> variables = new HashMap<>(); // the expression of each name
  private int start;
  private int end;
  private String token = ""; // text[start:end]; empty at the end of the text

  private MapParser(String text) {
    this.text = text;
  }

  static IndexingMap parse(String text) {
    int sources = text.indexOf("\nruntime variables:");
    String map = sources < 0 ? text : text.substring(0, sources);
    switch (map.strip().replaceAll("\\s+", " ")) {
      case "KNOWN EMPTY":
        return IndexingMap.newBuilder().setState(IndexingMap.State.STATE_KNOWN_EMPTY).build();
      case "UNDEFINED":
        return IndexingMap.newBuilder().setState(IndexingMap.State.STATE_UNDEFINED).build();
      default:
        MapParser parser = new MapParser(map);
        parser.next();
        parser.map();
        return parser.map.build();
    }
  }

  private void next() {
    start = end;
    while (start < text.length() && " \t\r\n".indexOf(text.charAt(start)) >= 0) {
      start++;
    }
    end = start;
    while (end < text.length() && isWord(text.charAt(end))) {
      end++;
    }
    if (end == start && end < text.length()) {
      end += text.startsWith("->", start) ? 2 : Character.charCount(text.codePointAt(start));
    }
    token = text.substring(start, end);
  }

  private static boolean isWord(char c) {
    return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z';
  }

  private static boolean isDigit(String token) {
    return !token.isEmpty() && token.charAt(0) >= '0' && token.charAt(0) <= '9';
  }

  private XlashapeException expected(String what) {
    int line = 1;
    int lineStart = 0;
    for (int i = 0; i < start; i++) {
      if (text.charAt(i) == '\n') {
        line++;
        lineStart = i + 1;
      }
    }
    String found = token.isEmpty() ? "the end of the text" : "'" + (token.length() > 40 ? token.substring(0, 40) + "…" : token) + "'";
    return new XlashapeException(
        Status.Code.INVALID_ARGUMENT, "PARSE", "expected " + what + ", found " + found,
        Map.of("line", Integer.toString(line), "column", Integer.toString(text.codePointCount(lineStart, start) + 1)), null);
  }

  /** Passes a token that is as given. */
  private boolean take(String expected) {
    if (!token.equals(expected)) {
      return false;
    }
    next();
    return true;
  }

  private void expect(String expected) {
    if (!take(expected)) {
      throw expected("'" + expected + "'");
    }
  }

  private void map() {
    names("(", ")", Kind.KIND_DIMENSION, "d");
    if (token.equals("[")) {
      names("[", "]", Kind.KIND_RANGE, "s");
    }
    if (token.equals("{")) {
      names("{", "}", Kind.KIND_RUNTIME, "rt");
    }
    expect("->");
    expect("(");
    while (!take(")")) {
      map.addResults(expression());
      if (!token.equals(")")) {
        expect(",");
      }
    }
    take(",");
    Set<Integer> bounded = new HashSet<>();
    if (take("domain")) {
      expect(":");
      while (!token.isEmpty()) {
        bounds(bounded);
        if (!take(",")) {
          break;
        }
      }
    }
    if (!token.isEmpty()) {
      throw expected("the end of the text");
    }
    if (bounded.size() < variables.size()) {
      throw expected("a domain with an interval for every variable");
    }
  }

  private void names(String open, String close, Kind kind, String prefix) {
    expect(open);
    int count = 0;
    while (!take(close)) {
      if (token.isEmpty() || !isWord(token.charAt(0)) || isDigit(token) || variables.containsKey(token)) {
        throw expected("the name of a new variable");
      }
      Variable.Builder variable = Variable.newBuilder();
      if (!token.equals(prefix + count)) {
        variable.setName(token);
      }
      switch (kind) {
        case KIND_DIMENSION -> map.addDimensions(variable);
        case KIND_RANGE -> map.addRanges(variable);
        default -> map.addRuntime(variable);
      }
      variables.put(token, add(Expression.newBuilder().setKind(kind).setValue(count++)));
      next();
      if (!token.equals(close)) {
        expect(",");
      }
    }
  }

  /** Reads the interval of a variable, or a constraint. */
  private void bounds(Set<Integer> bounded) {
    if (take("is_simplified")) {
      expect(":");
      next();
      return;
    }
    int position = expression();
    expect("in");
    expect("[");
    Interval.Builder interval = Interval.newBuilder().setLower(integer());
    expect(",");
    interval.setUpper(integer());
    expect("]");
    Expression expression = map.getExpressions(position);
    int number = (int) expression.getValue();
    Variable.Builder variable;
    switch (expression.getKind()) {
      case KIND_DIMENSION -> variable = map.getDimensionsBuilder(number);
      case KIND_RANGE -> variable = map.getRangesBuilder(number);
      case KIND_RUNTIME -> variable = map.getRuntimeBuilder(number);
      default -> {
        map.addConstraints(Constraint.newBuilder().setExpression(position).setBounds(interval));
        return;
      }
    }
    if (!bounded.add(position)) {
      interval.setLower(Math.max(interval.getLower(), variable.getBounds().getLower()));
      interval.setUpper(Math.min(interval.getUpper(), variable.getBounds().getUpper()));
    }
    variable.setBounds(interval);
  }

  private long integer() {
    String sign = take("-") ? "-" : "";
    if (isDigit(token)) {
      try {
        long value = Long.parseLong(sign + token);
        next();
        return value;
      } catch (NumberFormatException e) {
        // Too large, or followed by letters.
      }
    }
    throw expected("an integer of 64 bits");
  }

  private int add(Expression.Builder expression) {
    map.addExpressions(expression);
    return map.getExpressionsCount() - 1;
  }

  private int constant(long value) {
    return add(Expression.newBuilder().setKind(Kind.KIND_CONSTANT).setValue(value));
  }

  private int operation(Kind kind, int first, int second) {
    return add(Expression.newBuilder().setKind(kind).addOperands(first).addOperands(second));
  }

  /** Reads an expression, and returns its position. */
  private int expression() {
    Deque<Operator> operators = new ArrayDeque<>();
    Deque<Integer> operands = new ArrayDeque<>();
    while (true) {
      while (!operand(operators, operands)) {
        // Signs and parentheses before the operand.
      }
      boolean isOperandNext = false;
      while (!isOperandNext) {
        Operator operator = BINARY.get(token);
        reduce(operators, operands, operator == null ? 1 : operator.precedence);
        if (operator != null) {
          operators.push(operator);
          next();
          isOperandNext = true;
        } else if (operators.isEmpty()) {
          return operands.pop();
        } else {
          isOperandNext = close(operators, operands);
        }
      }
    }
  }

  /** Reads a sign, an opening parenthesis, or an operand; whether it was an operand. */
  private boolean operand(Deque<Operator> operators, Deque<Integer> operands) {
    Integer variable = variables.get(token);
    if (variable != null) {
      next();
      operands.push(variable);
      return true;
    }
    if (isDigit(token)) {
      operands.push(constant(integer()));
      return true;
    }
    if (take("-")) {
      if (isDigit(token)) {
        try {
          // The least long has no positive counterpart, so the sign belongs to the number.
          operands.push(constant(Long.parseLong("-" + token)));
          next();
          return true;
        } catch (NumberFormatException e) {
          throw expected("an integer of 64 bits");
        }
      }
      operators.push(Operator.NEGATE);
    } else if (take("(")) {
      operators.push(Operator.PARENTHESIS);
    } else if (token.equals("min") || token.equals("max")) {
      operators.push(token.equals("min") ? Operator.FIRST_OF_MINIMUM : Operator.FIRST_OF_MAXIMUM);
      next();
      expect("(");
    } else {
      throw expected("an expression");
    }
    return false;
  }

  /** Reads what follows an expression in parentheses; whether it is a comma, after which the next operand follows. */
  private boolean close(Deque<Operator> operators, Deque<Integer> operands) {
    Operator open = operators.pop();
    if (open == Operator.FIRST_OF_MINIMUM || open == Operator.FIRST_OF_MAXIMUM) {
      expect(",");
      operators.push(open == Operator.FIRST_OF_MINIMUM ? Operator.MINIMUM : Operator.MAXIMUM);
      return true;
    }
    expect(")");
    if (open != Operator.PARENTHESIS) {
      int second = operands.pop();
      operands.push(operation(open == Operator.MINIMUM ? Kind.KIND_MINIMUM : Kind.KIND_MAXIMUM, operands.pop(), second));
    }
    return false;
  }

  /** Applies the operators at the top of the stack that bind at least as strongly. */
  private void reduce(Deque<Operator> operators, Deque<Integer> operands, int precedence) {
    while (!operators.isEmpty() && operators.peek().precedence >= precedence) {
      Operator operator = operators.pop();
      int last = operands.pop();
      operands.push(switch (operator) {
        case NEGATE -> operation(Kind.KIND_MULTIPLY, last, constant(-1));
        case ADD -> operation(Kind.KIND_ADD, operands.pop(), last);
        case SUBTRACT -> {
          int negative = operation(Kind.KIND_MULTIPLY, last, constant(-1));
          yield operation(Kind.KIND_ADD, operands.pop(), negative);
        }
        case MULTIPLY -> operation(Kind.KIND_MULTIPLY, operands.pop(), last);
        case FLOOR_DIVIDE -> operation(Kind.KIND_FLOOR_DIVIDE, operands.pop(), last);
        case CEIL_DIVIDE -> operation(Kind.KIND_CEIL_DIVIDE, operands.pop(), last);
        case MODULO -> operation(Kind.KIND_MODULO, operands.pop(), last);
        default -> throw new AssertionError(operator);
      });
    }
  }
}

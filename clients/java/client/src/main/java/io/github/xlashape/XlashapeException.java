package io.github.xlashape;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;

/**
 * What a call was refused with, or why it did not reach the server; or what is wrong with a map. All methods of this package that can fail throw it.
 *
 * <pre>{@code
 * try {
 *   client.linearIndex(Inputs.shape("f32[3,5"), 2, 3);
 * } catch (XlashapeException refused) {
 *   System.out.println(refused.getReason() + " " + refused.getLine() + ":" + refused.getColumn()); // PARSE 1:8
 * }
 * }</pre>
 */
public final class XlashapeException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final String DOMAIN = "xlashape";

  private final Status.Code code;
  private final String reason;
  private final String description;
  private final TreeMap<String, String> metadata;

  XlashapeException(Status.Code code, String reason, String description, Map<String, String> metadata, @Nullable Throwable cause) {
    super(null, cause);
    this.code = code;
    this.reason = reason;
    this.metadata = new TreeMap<>(metadata);
    this.description = metadata.getOrDefault("message", description);
  }

  private int number(String name) {
    String text = metadata.getOrDefault(name, "");
    return text.matches("\\d{1,9}") ? Integer.parseInt(text) : 0;
  }

  /** An error that this package finds by itself. */
  static XlashapeException mistake(String reason, String field, String message) {
    return new XlashapeException(Status.Code.INVALID_ARGUMENT, reason, message, Map.of("field", field), null);
  }

  static void check(boolean holds, String reason, String field, String message) {
    if (!holds) {
      throw mistake(reason, field, message);
    }
  }

  /**
   * Reads the error of a call, such as one that was made with a generated stub over {@link XlashapeClient#channel()}.
   *
   * @param error an exception of gRPC, or another one
   * @return the error with the server's details; the error itself if it is an {@code XlashapeException}
   */
  public static XlashapeException of(Throwable error) {
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      if (cause instanceof XlashapeException known) {
        return known;
      }
    }
    Status status = Status.fromThrowable(error);
    String message = status.getDescription() == null ? status.getCode().name() : status.getDescription();
    if (status.getCause() != null && status.getCause().getMessage() != null) {
      message += ": " + status.getCause().getMessage(); // gRPC says "io exception", the cause that nobody listens
    }
    ErrorInfo info = errorInfo(error);
    if (info == null) {
      return new XlashapeException(status.getCode(), "", message, Map.of(), error);
    }
    return new XlashapeException(status.getCode(), info.getReason(), message, info.getMetadataMap(), error);
  }

  private static @Nullable ErrorInfo errorInfo(Throwable error) {
    try {
      com.google.rpc.Status status = StatusProto.fromThrowable(error);
      for (Any detail : status == null ? List.<Any>of() : status.getDetailsList()) {
        if (detail.is(ErrorInfo.class) && detail.unpack(ErrorInfo.class).getDomain().equals(DOMAIN)) {
          return detail.unpack(ErrorInfo.class);
        }
      }
    } catch (IllegalArgumentException | InvalidProtocolBufferException e) {
      // Not written by a server of xlashape: the status alone counts.
    }
    return null;
  }

  /**
   * Returns the status of the call.
   *
   * @return {@code INVALID_ARGUMENT}, {@code NOT_FOUND}, {@code RESOURCE_EXHAUSTED}, {@code DEADLINE_EXCEEDED}, {@code UNAVAILABLE}, …
   */
  public Status.Code getCode() {
    return code;
  }

  /**
   * Returns the server's name for what is wrong.
   *
   * @return {@code PARSE}, {@code INVALID_INDEX}, {@code NOT_FOUND}, {@code LIMIT_EXCEEDED}, …; empty if the error does not come from xlashape, but from
   *     gRPC or from a proxy
   */
  public String getReason() {
    return reason;
  }

  /**
   * Returns what is wrong, with the field, the line and the column before it, and the reason behind it.
   *
   * @return such as {@code shape.text: line 1, column 8: expected ',' or ']' of the dimensions, found the end of the text (PARSE)}
   */
  @Override
  public String getMessage() {
    String place = getLine() > 0 ? "line " + getLine() + ", column " + getColumn() + ": " : "";
    String where = getField().isEmpty() ? place : getField() + ": " + place;
    return where + description + " (" + (reason.isEmpty() ? code.name() : reason) + ")";
  }

  /**
   * Returns what is wrong, alone.
   *
   * @return a sentence for people
   */
  public String getDescription() {
    return description;
  }

  /**
   * Returns the path of the wrong field in the request.
   *
   * @return such as {@code shapes[3].text}; empty if no field is to blame
   */
  public String getField() {
    return metadata.getOrDefault("field", "");
  }

  /**
   * Returns the line where text is wrong.
   *
   * @return the line from 1; 0 if the mistake is not in text
   */
  public int getLine() {
    return number("line");
  }

  /**
   * Returns the column where text is wrong.
   *
   * @return the column from 1, in characters; 0 if the mistake is not in text
   */
  public int getColumn() {
    return number("column");
  }

  /**
   * Returns all other details by name.
   *
   * @return {@code limit}, {@code maximum} and {@code value} of an exceeded limit, {@code kind} and {@code name} of what was not found, …; a map that
   *     cannot be changed
   */
  public Map<String, String> getDetails() {
    Map<String, String> details = new TreeMap<>(metadata);
    details.keySet().removeAll(Set.of("message", "field", "line", "column"));
    return Collections.unmodifiableMap(details);
  }
}

package io.github.xlashape;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.util.List;
import java.util.Map;
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
public final class XlashapeException extends ErrorParts {
  private static final long serialVersionUID = 1;
  private static final String DOMAIN = "xlashape";

  XlashapeException(Status.Code code, String reason, String description, Map<String, String> metadata, @Nullable Throwable cause) {
    super(code, reason, description, metadata, cause);
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
    return new XlashapeException(status.getCode(), info.getReason(), message, info.getMetadataMap(), error);
  }

  private static ErrorInfo errorInfo(Throwable error) {
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
    return ErrorInfo.getDefaultInstance();
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
    return where + getDescription() + " (" + (getReason().isEmpty() ? getCode().name() : getReason()) + ")";
  }
}

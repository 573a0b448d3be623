package io.github.xlashape;

import com.google.protobuf.ByteString;
import io.github.xlashape.v1.IndexingMap;
import io.github.xlashape.v1.MapInput;
import io.github.xlashape.v1.ModuleInput;
import io.github.xlashape.v1.ShapeInput;

/** Makes the shapes, modules and maps of requests. */
public final class Inputs {
  private Inputs() {}

  /**
   * Makes a shape of XLA's text.
   *
   * @param text {@code f32[8,128]{1,0:T(8,128)}}; a missing layout stands for the default layout
   * @return a shape for requests
   */
  public static ShapeInput shape(String text) {
    return ShapeInput.newBuilder().setText(text).build();
  }

  /**
   * Makes a shape of the bytes of an xla.ShapeProto.
   *
   * @param proto the serialized proto
   * @return a shape for requests
   */
  public static ShapeInput serializedShape(byte[] proto) {
    return ShapeInput.newBuilder().setSerialized(ByteString.copyFrom(proto)).build();
  }

  /**
   * Makes a module of its HLO text, which is sent with each request. A module that is asked about often is better uploaded.
   *
   * @param text HLO text
   * @return a module for requests
   */
  public static ModuleInput moduleText(String text) {
    return ModuleInput.newBuilder().setText(text).build();
  }

  /**
   * Makes a module of the bytes of an xla.HloModuleProto or xla.HloProto, which are sent with each request.
   *
   * @param proto the serialized proto
   * @return a module for requests
   */
  public static ModuleInput serializedModule(byte[] proto) {
    return ModuleInput.newBuilder().setSerialized(ByteString.copyFrom(proto)).build();
  }

  /**
   * Names a module that the server has.
   *
   * @param name {@code modules/{sha256}}, the name of an uploaded module
   * @return a module for requests
   */
  public static ModuleInput storedModule(String name) {
    return ModuleInput.newBuilder().setName(name).build();
  }

  /**
   * Makes an indexing map of its text.
   *
   * @param text {@code (d0)[s0] -> (d0 * 4 + s0), domain: d0 in [0, 9], s0 in [0, 3]}
   * @return a map for requests
   */
  public static MapInput mapText(String text) {
    return MapInput.newBuilder().setText(text).build();
  }

  /**
   * Makes an indexing map of a message, such as one of an answer.
   *
   * @param message the message
   * @return a map for requests
   */
  public static MapInput mapMessage(IndexingMap message) {
    return MapInput.newBuilder().setMap(message).build();
  }
}

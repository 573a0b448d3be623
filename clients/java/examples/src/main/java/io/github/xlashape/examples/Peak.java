package io.github.xlashape.examples;

import io.github.xlashape.Inputs;
import io.github.xlashape.Reasons;
import io.github.xlashape.XlashapeClient;
import io.github.xlashape.XlashapeException;
import io.github.xlashape.v1.IndexingMapsRequest;
import io.github.xlashape.v1.MemoryRequest;
import io.github.xlashape.v1.MemoryResponse;
import io.github.xlashape.v1.ModuleInput;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads. */
public final class Peak {
  private Peak() {}

  public static void main(String[] arguments) throws IOException {
    ModuleInput module = Inputs.serializedModule(Files.readAllBytes(Path.of(arguments[1])));
    try (XlashapeClient client = XlashapeClient.connect(arguments[0])) {
      MemoryResponse memory = client.memory(MemoryRequest.newBuilder().setModule(module).setPageSize(3).build());
      System.out.println("peak " + memory.getTotals().getPeakBytes());
      memory.getPeakBuffersList().forEach(one -> System.out.println(one.getName() + " " + one.getBytes() + " " + one.getShape()));
      IndexingMapsRequest request = IndexingMapsRequest.newBuilder().setModule(module).setInstruction(arguments[2]).build();
      client.indexingMapsRows(request).forEach(read -> System.out.println(read.getOperandName() + " " + read.getMap()));
    } catch (XlashapeException error) {
      if (!error.getReason().equals(Reasons.NOT_FOUND)) {
        throw error;
      }
      System.out.println(error.getReason() + " " + error.getField() + " " + error.getDetails().get("name"));
    }
  }
}

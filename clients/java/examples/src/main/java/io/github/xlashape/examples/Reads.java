package io.github.xlashape.examples;

import io.github.xlashape.Inputs;
import io.github.xlashape.XlashapeClient;
import io.github.xlashape.v1.CoalescedAccess;
import io.github.xlashape.v1.Module;
import io.github.xlashape.v1.OperandReads;
import io.github.xlashape.v1.OperandReadsRequest;
import io.github.xlashape.v1.OperandReadsResponse;
import java.io.IOException;
import java.nio.file.Path;
import java.util.stream.Stream;

/** Uploads an HLO module and prints what its fusions read. */
public final class Reads {
  private Reads() {}

  public static void main(String[] arguments) throws IOException {
    if (arguments.length != 2) {
      System.err.println("usage: Reads HOST:PORT FILE");
      System.exit(2);
    }
    try (XlashapeClient client = XlashapeClient.connect(arguments[0])) {
      Module module = client.uploadModule(Path.of(arguments[1])).module();
      OperandReadsRequest request =
          OperandReadsRequest.newBuilder().setModule(Inputs.storedModule(module.getName())).setReportErrors(true).build();
      try (Stream<OperandReadsResponse> answers = client.operandReads(request)) {
        answers.filter(answer -> answer.getOpcode().equals("fusion")).forEach(Reads::print);
      }
    }
  }

  private static void print(OperandReadsResponse answer) {
    System.out.println(answer.getInstruction());
    for (OperandReads read : answer.getReadsList()) {
      String distinct = read.hasDistinctElements() ? Long.toString(read.getDistinctElements()) : "an unknown number";
      System.out.printf("  %s: %s of %d elements%n", read.getOperandName(), distinct, read.getElements());
      for (CoalescedAccess access : read.getAccessesList()) {
        System.out.println("    " + access.getMap().getText());
      }
    }
  }
}

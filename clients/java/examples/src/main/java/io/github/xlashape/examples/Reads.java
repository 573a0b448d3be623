package io.github.xlashape.examples;

import io.github.xlashape.Inputs;
import io.github.xlashape.XlashapeClient;
import io.github.xlashape.v1.Module;
import io.github.xlashape.v1.ReadsRequest;
import io.github.xlashape.v1.ReadsRow;
import java.io.IOException;
import java.nio.file.Path;

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
      ReadsRequest request = ReadsRequest.newBuilder().setModule(Inputs.storedModule(module.getName())).build();
      client.readsRows(request).filter(read -> read.getOpcode().equals("fusion") && read.hasPartRead()).forEach(Reads::print);
    }
  }

  private static void print(ReadsRow read) {
    System.out.printf("%s reads %.0f %% of %s%n", read.getInstruction(), 100 * read.getPartRead(), read.getOperandName());
    System.out.println("  " + read.getMap().replace("\n", "\n  "));
  }
}

package io.github.xlashape.examples

import io.github.xlashape.Inputs
import io.github.xlashape.Reasons
import io.github.xlashape.XlashapeClient
import io.github.xlashape.XlashapeException
import io.github.xlashape.v1.IndexingMapsRequest
import io.github.xlashape.v1.MemoryRequest
import java.nio.file.Files
import java.nio.file.Path

/** Prints the peak of a program's memory, the largest buffers at the peak, and what a fusion reads. */
fun main(arguments: Array<String>) {
    val (address, file, fusion) = arguments
    val module = Inputs.serializedModule(Files.readAllBytes(Path.of(file)))
    try {
        XlashapeClient.connect(address).use { client ->
            val memory = client.memory(MemoryRequest.newBuilder().setModule(module).setPageSize(3).build())
            println("peak ${memory.totals.peakBytes}")
            for (buffer in memory.peakBuffersList) println("${buffer.name} ${buffer.bytes} ${buffer.shape}")
            val request = IndexingMapsRequest.newBuilder().setModule(module).setInstruction(fusion).build()
            for (read in client.indexingMapsRows(request)) println("${read.operandName} ${read.map}")
        }
    } catch (error: XlashapeException) {
        if (error.reason != Reasons.NOT_FOUND) throw error
        println("${error.reason} ${error.field} ${error.details["name"]}")
    }
}

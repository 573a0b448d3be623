package io.github.xlashape.kotlin

import io.github.xlashape.Upload
import io.github.xlashape.XlashapeClient
import io.github.xlashape.XlashapeException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.future.await
import kotlinx.coroutines.runInterruptible
import java.io.InputStream
import java.io.OutputStream
import java.util.stream.Stream

/** The calls of this client as suspending functions and flows, over the same connection. */
public fun XlashapeClient.coroutines(): CoroutineClient = CoroutineClient(this)

/**
 * Asks as [XlashapeClient] does, whose connection it uses: closing that ends all calls. A coroutine that is cancelled cancels its call. All functions throw
 * [XlashapeException] if the server refuses, or cannot be reached; flows do so where they are collected.
 */
public class CoroutineClient internal constructor(client: XlashapeClient) : CoroutineMethods(client) {
    /** Stores a module: HLO text, or a serialized xla.HloModuleProto or xla.HloProto. A module that the server has already is not sent again. */
    public suspend fun uploadModule(content: ByteArray): Upload = client.async().uploadModule(content).await()

    /** Stores a module of HLO text. A module that the server has already is not sent again. */
    public suspend fun uploadModuleText(text: String): Upload = client.async().uploadModuleText(text).await()

    /**
     * Stores a module that is sent while it is read, whether or not the server has it.
     *
     * @param from where its content is read, to the end; it is not closed
     * @param progress is told how many bytes were sent, after each part
     */
    public suspend fun uploadModule(from: InputStream, progress: (Long) -> Unit = {}): Upload =
        interruptible { client.uploadModule(from, progress) }

    /** Writes the content of a stored module of this name, as it was uploaded, and returns the number of its bytes. */
    public suspend fun downloadModule(name: String, to: OutputStream): Long = interruptible { client.downloadModule(name, to) }
}

/** What `work` gives, which waits in a thread for waiting. Cancelling the coroutine ends the wait. */
private suspend fun <T> interruptible(work: () -> T): T =
    try {
        runInterruptible(Dispatchers.IO, work)
    } catch (error: XlashapeException) {
        currentCoroutineContext().ensureActive() // a thread that is interrupted gives such an error too
        throw error
    }

/** The items of a stream, which is opened for each collector. */
internal fun <T : Any> flowOf(open: () -> Stream<T>): Flow<T> = flow {
    open().use { stream ->
        val items = stream.iterator()
        while (interruptible { items.hasNext() }) emit(items.next())
    }
}

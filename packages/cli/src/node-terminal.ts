// Standard input and output as a terminal for guests: raw while it is open, as it was afterwards.
import type { Terminal } from "./io.ts";
import { writeTo } from "./local-listener.ts";

export function openTerminal(
  stdin: Pick<NodeJS.ReadStream, "isTTY" | "setRawMode" | "destroy"> & AsyncIterable<Uint8Array>,
  stdout: NodeJS.WriteStream,
): Terminal {
  const { isTTY } = stdin;
  if (isTTY) stdin.setRawMode(true);
  return {
    isTTY,
    input: untilClosed(stdin),
    size: () => (stdout.isTTY ? { columns: stdout.columns, rows: stdout.rows } : undefined),
    onResize: (listener) => {
      stdout.on("resize", listener);
      return () => stdout.off("resize", listener);
    },
    write: (bytes) => writeTo(stdout, bytes),
    close: () => {
      if (isTTY) stdin.setRawMode(false);
      // Else the process would wait for the next key.
      stdin.destroy();
    },
  };
}

async function* untilClosed(stdin: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* stdin;
  } catch (err) {
    if (!(err instanceof Error && "code" in err && err.code === "ERR_STREAM_PREMATURE_CLOSE")) throw err;
  }
}

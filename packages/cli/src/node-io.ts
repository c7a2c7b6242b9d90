// The real terminal, environment and network.
import { once } from "node:events";
import { homedir } from "node:os";
import { given } from "@gpve/contracts/given.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { CliIo, OutStream } from "./io.ts";
import { listenLocally } from "./local-listener.ts";
import { openTerminal } from "./node-terminal.ts";

/** `localDataDir`: this machine's default data directory, tried when no server is chosen. */
export function nodeIo(options: { localDataDir?: string } = {}): CliIo {
  const interrupt = new AbortController();
  // The second Ctrl-C ends the process at once, as usual.
  process.once("SIGINT", () => interrupt.abort(new AppError("operation.cancelled", "interrupted")));
  // `gpvectl … | head` closes the pipe early; that is no failure.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on("error", (err: NodeJS.ErrnoException) => {
      if (err.code === "EPIPE") interrupt.abort(err);
      else throw err;
    });
  }
  return {
    stdout: outStream(process.stdout),
    stderr: outStream(process.stderr),
    env: process.env,
    homeDir: homedir(),
    cwd: process.cwd(),
    clock: systemClock,
    signal: interrupt.signal,
    ...given({ localDataDir: options.localDataDir }),
    readStdin,
    ask: (question, asking) => ask(question, asking ?? {}, () => interrupt.abort()),
    connect: (target) => new NodeTransport(target),
    probes: async () => {
      const { NetworkProbes } = await import("@gpve/talos/preflight/network-probes.ts");
      return new NetworkProbes();
    },
    openTerminal: () => openTerminal(process.stdin, process.stdout),
    listen: listenLocally,
  };
}

function outStream(stream: NodeJS.WriteStream): OutStream {
  return {
    write: (text) => {
      stream.write(text);
    },
    isTTY: stream.isTTY,
    get columns() {
      return stream.isTTY ? stream.columns : undefined;
    },
  };
}

async function readStdin(): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of process.stdin) pieces.push(piece as Buffer);
  return Buffer.concat(pieces).toString("utf8");
}

async function ask(
  question: string,
  options: { hidden?: boolean },
  interrupted: () => void,
): Promise<string> {
  const { stdin, stderr } = process;
  if (!stdin.isTTY) {
    throw new AppError(
      "config.invalid",
      `"${question.replace(/:? *$/, "")}" can only be asked on a terminal`,
      {
        data: { next: "Give the answer on standard input or as an option; see --help." },
      },
    );
  }
  // First raw, then the question: what is typed at once must not be echoed.
  stdin.setRawMode(true);
  stderr.write(question);
  stdin.resume();
  stdin.setEncoding("utf8");
  let answer = "";
  try {
    for (;;) {
      // Not `for await`: leaving that loop would close standard input for the next question.
      const [piece] = (await once(stdin, "data")) as [string];
      for (const char of piece) {
        if (char === "\r" || char === "\n" || char === "\u0004") return answer;
        if (char === "\u0003") {
          interrupted();
          throw new AppError("operation.cancelled", "interrupted");
        }
        if (char === "\u007f" || char === "\b") {
          if (answer !== "" && options.hidden !== true) stderr.write("\b \b");
          answer = answer.slice(0, -1);
        } else {
          answer += char;
          if (options.hidden !== true) stderr.write(char);
        }
      }
    }
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
    stderr.write("\n");
  }
}

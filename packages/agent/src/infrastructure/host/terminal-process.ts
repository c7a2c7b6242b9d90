// A program on a terminal: the supervisor's binary holds the terminal, and ends with us.
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { spawnPiped } from "@gpve/kit/spawn.ts";

export function openTerminal(supervisor: string, argv: readonly string[]): ConsoleSocket {
  const env = { ...MINIMAL_ENV, LC_ALL: "C.UTF-8", TERM: "xterm-256color" };
  const child = spawnPiped(supervisor, ["terminal", ...argv], { env });
  return {
    output: child.output,
    write: async (frame) => {
      if (child.input.destroyed) throw new Error("the terminal is closed");
      if (child.input.write(frame)) return;
      const room = Promise.withResolvers<void>();
      child.input.once("drain", room.resolve);
      await Promise.race([room.promise, child.ended]);
    },
    // The end of its input hangs up; the program behind it is told by SIGHUP.
    close: () => child.input.end(),
    closed: child.ended,
  };
}

// Shells of the node itself, on a terminal of their own. Root of the host gets in as whom it has proved to be; everybody
// else meets the host's own login.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { ConsoleOffer, ConsoleSessions } from "./guest/console-sessions.ts";

export interface NodeShellsDeps {
  readonly node: string;
  readonly sessions: ConsoleSessions;
  readonly engine: Pick<OperationEngine, "register">;
  /** Starts a program on a terminal. */
  readonly openTerminal: (argv: readonly string[]) => ConsoleSocket;
  /** Only root can log others in. */
  readonly isRoot: boolean;
}

export interface OfferedShell {
  readonly authid: string;
  readonly command: string;
  readonly traceparent?: string;
}

const LOGIN = "/bin/login";
const ROOT = "root@pam";

export class NodeShells {
  readonly #deps: NodeShellsDeps;

  constructor(deps: NodeShellsDeps) {
    this.#deps = deps;
    deps.engine.register(deps.sessions.operation("vncshell"));
  }

  async offer(request: OfferedShell): Promise<ConsoleOffer> {
    const { node, sessions, openTerminal, isRoot } = this.#deps;
    const argv = shellCommand(request.authid, request.command);
    if (!isRoot)
      throw new AppError(
        "feature.unsupported",
        `node ${node} has no shells: its agent does not run as root, and cannot log anybody in`,
      );
    return sessions.offer(
      {
        owner: `/nodes/${node}`,
        kind: "shell",
        authid: request.authid,
        password: "",
        join: () => Promise.resolve(openTerminal(argv)),
      },
      {
        type: "vncshell",
        subject: "",
        ...given({ traceparent: request.traceparent }),
      },
    );
  }
}

export function shellCommand(authid: string, command: string): readonly string[] {
  if (command !== "login" && authid !== ROOT)
    throw new AppError("access.denied", "Permission check failed (user != root@pam)");
  if (command === "ceph_install")
    throw new AppError("feature.unsupported", "Ceph is not installed by this platform");
  if (command === "upgrade") return ["/usr/bin/apt-get", "dist-upgrade"];
  return authid === ROOT ? [LOGIN, "-f", "root"] : [LOGIN];
}

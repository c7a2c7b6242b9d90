// Who may give a VM's QEMU which command.
import { AppError } from "@gpve/contracts/errors.ts";
import { isRoot, type RequestContext } from "@gpve/domain/request/context.ts";
import { monitorRight } from "@gpve/domain/vm/running/monitor-commands.ts";

export function requireMayCommand(command: string, ctx: RequestContext): void {
  const name = /^\s*(\S+)/.exec(command)?.[1];
  if (name === undefined)
    throw denied(command === "" ? "no command specified" : `unexpected command '${command}'`);
  const right = monitorRight(name);
  if (right === "everybody") return;
  if (right === "Sys.Modify") return ctx.access.require("/", ["Sys.Modify"]);
  if (ctx.actor !== undefined && isRoot(ctx.actor)) return;
  throw denied(
    right === "root"
      ? `root-only command '${name}'`
      : `command '${name}' non-existent or not assigned a required permission yet, limiting to root user`,
  );
}

function denied(message: string): AppError {
  return new AppError("access.denied", message, { pveStatus: 500 });
}

// The /agent family of a VM. Nothing here waits in the VM's queue: a guest answers, or it does not.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { agentCommand, agentCommands, agentSpecialCommands } from "@gpve/domain/vm/running/agent-commands.ts";
import {
  MAX_READ_BYTES,
  programStatus,
  readGuestFile,
  startProgram,
  writeGuestFile,
} from "../../../application/qemu/agent/guest-files.ts";
import {
  requireGuestAgent,
  runAgentCommand,
  type UseGuestAgentPorts,
} from "../../../application/qemu/agent/use-guest-agent.ts";

export function createVmAgentHandlers(host: UseGuestAgentPorts): PveHandlers {
  const plain = Object.fromEntries(
    agentCommands.map((command) => [
      `${command.method} /nodes/{node}/qemu/{vmid}/agent/${command.name}`,
      async ({ vmid }: { vmid: number }, { signal }: { signal: AbortSignal }) => ({
        result: await answerOf(runAgentCommand(host, vmid, command, signal)),
      }),
    ]),
  ) as PveHandlers;

  return {
    ...plain,

    "GET /nodes/{node}/qemu/{vmid}/agent": () =>
      [...agentCommands.map(({ name }) => name), ...agentSpecialCommands]
        .toSorted()
        .map((name) => ({ name })),

    "POST /nodes/{node}/qemu/{vmid}/agent": async ({ vmid, command }, { signal }) => {
      const known = agentCommand(command);
      if (known === undefined) throw new AppError("request.invalid", `no such command '${command}'`);
      return { result: await answerOf(runAgentCommand(host, vmid, known, signal)) };
    },

    "POST /nodes/{node}/qemu/{vmid}/agent/exec": ({ vmid, command, "input-data": input }, { signal }) =>
      asAgentError(startProgram(requireGuestAgent(host, vmid), command, input, signal)),

    "GET /nodes/{node}/qemu/{vmid}/agent/exec-status": ({ vmid, pid }, { signal }) =>
      asAgentError(programStatus(requireGuestAgent(host, vmid), pid, signal)),

    "GET /nodes/{node}/qemu/{vmid}/agent/file-read": (
      { vmid, file, count = MAX_READ_BYTES, offset = 0, decode = true },
      { signal },
    ) => asAgentError(readGuestFile(requireGuestAgent(host, vmid), { file, count, offset, decode }, signal)),

    "POST /nodes/{node}/qemu/{vmid}/agent/file-write": async (
      { vmid, file, content, encode = true },
      { signal },
    ) => {
      const base64 = encode ? Buffer.from(content).toString("base64") : content;
      await asAgentError(writeGuestFile(requireGuestAgent(host, vmid), file, base64, signal));
      return null;
    },

    "POST /nodes/{node}/qemu/{vmid}/agent/set-user-password": async (
      { vmid, username, password, crypted = false },
      { signal },
    ) => {
      const args = { username, password: Buffer.from(password).toString("base64"), crypted };
      const agent = requireGuestAgent(host, vmid);
      return { result: await asAgentError(agent.execute("guest-set-user-password", args, { signal })) };
    },
  };
}

/** What the agent says to a command without parameters is the answer, its refusal too: clients look for `error`. */
async function answerOf(answer: Promise<unknown>): Promise<unknown> {
  try {
    return (await answer) ?? null;
  } catch (err) {
    if (!isAppError(err, "guest_agent.failed")) throw err;
    return { error: { class: err.data["class"], desc: err.data["desc"] } };
  }
}

/** Where there are parameters, a refusal is an error of the call. */
async function asAgentError<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (cause) {
    if (!isAppError(cause, "guest_agent.failed")) throw cause;
    throw new AppError("guest_agent.failed", `Agent error: ${String(cause.data["desc"])}`, {
      pveStatus: 500,
      cause,
    });
  }
}

import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { durationSeconds } from "../../input.ts";
import { findVm, vmArgument } from "./find-vm.ts";

const POLL_MS = 200;
const KILLED = 128;

export const vmExec: CommandSpec = {
  name: "vm exec",
  summary: "run a program inside a VM through its guest agent",
  details: "Ends with the program's own exit code, or 128 and the signal's number when a signal ended it.",
  arguments: [vmArgument, { name: "<command...>", about: "the program and its arguments, after --" }],
  options: [
    { flags: "--stdin", about: "give it what is on standard input" },
    { flags: "--wait-for <duration>", about: "stop waiting after this long (5m)", parse: durationSeconds },
  ],
  examples: ["vm exec 100 -- uname -a", "vm exec web --stdin -- tee /etc/motd < motd"],
  doing: (input) => `run a program in VM ${input.arg("vm")}`,
  run: async (cli, input) => {
    const client = await cli.client();
    const place = await findVm(client, input.arg("vm"));
    const started = await client.pve.post("/nodes/{node}/qemu/{vmid}/agent/exec", {
      ...place,
      command: input.args("command"),
      ...(input.flag("stdin") ? { "input-data": await cli.io.readStdin() } : {}),
    });
    const pid = isObject(started) ? Number(started["pid"]) : Number.NaN;
    const deadline = cli.io.clock.now() + (input.number("waitFor") ?? 300) * 1000;
    for (;;) {
      const status = await client.pve.get(
        "/nodes/{node}/qemu/{vmid}/agent/exec-status",
        { ...place, pid },
        { signal: cli.signal },
      );
      if (isObject(status) && (status["exited"] === 1 || status["exited"] === true)) {
        if (!cli.out.forPeople) cli.out.data(status);
        else {
          cli.out.text(textOf(status["out-data"]));
          cli.io.stderr.write(textOf(status["err-data"]));
        }
        const signal = status["signal"];
        return typeof signal === "number" ? KILLED + signal : Number(status["exitcode"] ?? 0);
      }
      if (cli.io.clock.now() >= deadline) {
        throw new AppError("request.timeout", `the program still runs in the guest as process ${pid}`, {
          data: { next: "Allow more time with --wait-for." },
        });
      }
      await cli.io.clock.sleep(POLL_MS, cli.signal);
    }
  },
};

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

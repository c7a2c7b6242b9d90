// start, stop, shutdown, reboot, reset, pause, suspend, resume: the same command with other words.
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec, OptionSpec } from "../../command.ts";
import { finishWork, noWaitOption } from "../../follow-result.ts";
import { durationSeconds, type Input } from "../../input.ts";
import { whileDoing } from "../../while-doing.ts";
import { findVm, type VmPlace } from "./find-vm.ts";
import { powerOrderToHa, untilPoweredByHa } from "./moved-by-ha.ts";

interface Power {
  readonly verb: "start" | "stop" | "shutdown" | "reboot" | "reset" | "pause" | "suspend" | "resume";
  /** How the API calls it, if otherwise. */
  readonly method?: string;
  readonly summary: string;
  readonly done: string;
  readonly options?: readonly OptionSpec[];
  readonly params?: (input: Input) => Readonly<Record<string, number | boolean | undefined>>;
}

const timeout: OptionSpec = {
  flags: "--wait-for <duration>",
  about: "how long the guest may take (60s)",
  parse: durationSeconds,
};

const POWERS: readonly Power[] = [
  { verb: "start", summary: "start virtual machines", done: "Started" },
  { verb: "stop", summary: "cut the power of virtual machines at once", done: "Stopped" },
  {
    verb: "shutdown",
    summary: "ask guests to shut down",
    done: "Shut down",
    options: [timeout, { flags: "--force", about: "cut the power when the guest does not obey in time" }],
    params: (input) => ({ timeout: input.number("waitFor"), forceStop: input.flag("force") || undefined }),
  },
  {
    verb: "reboot",
    summary: "ask guests to reboot, and apply waiting changes",
    done: "Rebooted",
    options: [timeout],
    params: (input) => ({ timeout: input.number("waitFor") }),
  },
  { verb: "reset", summary: "reset virtual machines as by the reset button", done: "Reset" },
  { verb: "pause", method: "suspend", summary: "let virtual machines stand still", done: "Paused" },
  {
    verb: "suspend",
    summary: "pause virtual machines, or save them on disk",
    done: "Suspended",
    options: [{ flags: "--to-disk", about: "save the memory on disk and stop" }],
    params: (input) => ({ todisk: input.flag("toDisk") || undefined }),
  },
  { verb: "resume", summary: "let paused or suspended virtual machines go on", done: "Resumed" },
];

export const vmPowerCommands: readonly CommandSpec[] = POWERS.map(
  ({ verb, method, summary, done, options, params }) => ({
    name: `vm ${verb}`,
    summary,
    arguments: [{ name: "<vms...>", about: "VMIDs or names" }],
    options: [...(options ?? []), noWaitOption],
    examples: [`vm ${verb} 100 web`],
    doing: (input) => `${verb} VM ${input.args("vms").join(" ")}`.trim(),
    run: async (cli, input) => {
      const client = await cli.client();
      // A name that is wrong is told before anything happens to the others.
      const places: VmPlace[] = [];
      for (const name of input.args("vms")) places.push(await findVm(client, name));
      for (const place of places) {
        await whileDoing(`${verb} VM ${place.vmid}`, async () => {
          const all = { ...place, ...given(params?.(input) ?? {}) };
          const path = `/nodes/{node}/qemu/{vmid}/status/${method ?? verb}` as const;
          const { data } = await client.pve.call("POST", path, all);
          const wanted = input.flag("wait") ? powerOrderToHa(data) : undefined;
          if (wanted === undefined) return finishWork(cli, input, data, `${done} VM ${place.vmid}.`);
          await finishWork(cli, input, data, `HA is asked to ${verb} VM ${place.vmid}.`);
          if (await untilPoweredByHa(cli, place.vmid, wanted)) cli.out.done(`${done} VM ${place.vmid}.`);
        });
      }
    },
  }),
);

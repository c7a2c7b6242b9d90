// Guests under HA: which, and what is wanted of them.
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { CommandSpec, OptionSpec } from "../../command.ts";
import { wholeNumber, type Input } from "../../input.ts";
import { guestArgument, sidOf } from "./guest-sid.ts";
import { whyItWouldWait } from "./tied-disks.ts";

const STATES = ["started", "stopped", "disabled", "ignored"] as const;

const wishes: readonly OptionSpec[] = [
  { flags: "--state <state>", about: "what is wanted of it (started)", choices: STATES },
  { flags: "--max-restart <count>", about: "starts tried again on its node (1)", parse: wholeNumber(0) },
  { flags: "--max-relocate <count>", about: "other nodes tried after that (1)", parse: wholeNumber(0) },
  {
    flags: "--failback <choice>",
    about: "whether it goes back when the node it belongs to returns (yes)",
    choices: ["yes", "no"],
  },
  { flags: "--comment <text>", about: "free text" },
];

const wishNames = wishes.map(({ flags }) => flags.split(" ")[0]);

function wanted(input: Input): Record<string, string | number | boolean> {
  const failback = input.text("failback");
  return given({
    state: input.text("state"),
    max_restart: input.number("maxRestart"),
    max_relocate: input.number("maxRelocate"),
    failback: failback === undefined ? undefined : failback === "yes",
    comment: input.text("comment"),
  }) as Record<string, string | number | boolean>;
}

export const haAdd: CommandSpec = {
  name: "ha add",
  summary: "put a guest under HA: it runs again elsewhere when its node is lost",
  details: "Its disks must be on storages that other nodes have too.",
  arguments: [guestArgument],
  options: wishes,
  examples: ["ha add vm:100", "ha add 100 --max-restart 3 --state started"],
  doing: (input) => `put ${input.arg("guest")} under HA`,
  run: async (cli, input) => {
    const client = await cli.client();
    const guest = await sidOf(client, input.arg("guest"));
    await client.pve.post("/cluster/ha/resources", { sid: guest, ...wanted(input) });
    cli.out.done(`${guest} is under HA.`);
    const tied = cli.out.forPeople ? await whyItWouldWait(client, guest) : undefined;
    if (tied !== undefined) cli.out.note(tied);
  },
};

export const haSet: CommandSpec = {
  name: "ha set",
  summary: "change what is wanted of a guest under HA",
  arguments: [guestArgument],
  options: wishes,
  examples: ["ha set vm:100 --state stopped", "ha set 100 --max-relocate 2"],
  doing: (input) => `change ${input.arg("guest")} under HA`,
  run: async (cli, input) => {
    const change = wanted(input);
    if (Object.keys(change).length === 0)
      throw new AppError("request.invalid", `nothing to change; give one of ${wishNames.join(", ")}`);
    const client = await cli.client();
    const sid = await sidOf(client, input.arg("guest"));
    await client.pve.put("/cluster/ha/resources/{sid}", { sid, ...change });
    cli.out.done(`Changed ${sid}.`);
  },
};

export const haRemove: CommandSpec = {
  name: "ha remove",
  summary: "take a guest out of HA; it runs on",
  arguments: [guestArgument],
  examples: ["ha remove vm:100"],
  doing: (input) => `take ${input.arg("guest")} out of HA`,
  run: async (cli, input) => {
    const client = await cli.client();
    const sid = await sidOf(client, input.arg("guest"));
    await client.pve.delete("/cluster/ha/resources/{sid}", { sid });
    cli.out.done(`${sid} is not under HA any more.`);
  },
};

function moving(kind: "migrate" | "relocate", summary: string): CommandSpec {
  return {
    name: `ha ${kind}`,
    summary,
    arguments: [guestArgument, { name: "<node>", about: "where it is to go" }],
    examples: [`ha ${kind} vm:100 n2`],
    doing: (input) => `${kind} ${input.arg("guest")} to ${input.arg("node")}`,
    run: async (cli, input) => {
      const client = await cli.client();
      const sid = await sidOf(client, input.arg("guest"));
      const answer = (await client.pve.post(`/cluster/ha/resources/{sid}/${kind}`, {
        sid,
        node: input.arg("node"),
      })) as {
        readonly "comigrated-resources"?: readonly string[];
        readonly "blocking-resources"?: readonly { readonly sid: string; readonly cause: string }[];
      };
      const blocking = answer["blocking-resources"] ?? [];
      if (blocking.length > 0) {
        const why = blocking.map(({ sid, cause }) => `${cause} of ${sid}`).join(", ");
        cli.out.line(`${sid} cannot go to ${input.arg("node")}: ${why}. See: ha rules`);
        return 1;
      }
      const along = answer["comigrated-resources"] ?? [];
      const more = along.length === 0 ? "" : `, and with it ${along.join(", ")}`;
      cli.out.done(`The HA manager was asked to move ${sid} to ${input.arg("node")}${more}.`);
      return 0;
    },
  };
}

export const haMigrate = moving("migrate", "move a guest under HA to another node as it runs");
export const haRelocate = moving("relocate", "stop a guest under HA and start it on another node");

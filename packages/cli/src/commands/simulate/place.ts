import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { STRATEGY_NAMES } from "@gpve/contracts/v1/scheduling.ts";
import type { CommandSpec } from "../../command.ts";
import { wholeNumber } from "../../input.ts";
import { verdictTable, type Explained } from "../scheduler/verdicts.ts";

interface Answer {
  readonly fits: boolean;
  readonly placed: readonly { readonly id: string; readonly node: string; readonly score: number }[];
  readonly explanation: Explained;
}

export const simulatePlace: CommandSpec = {
  name: "simulate place",
  summary: "say where something would be placed, and why",
  details: "Nothing is changed. With --count so many alike are placed one after the other.",
  options: [
    { flags: "--kind <kind>", about: "what (vm)", choices: ["vm", "ct", "vc"] },
    { flags: "--cores <count>", about: "CPUs (1)", parse: wholeNumber(1) },
    { flags: "--memory <MiB>", about: "memory in MiB (1024)", parse: wholeNumber(1) },
    { flags: "--disk <GiB>", about: "room that it needs on --storage", parse: wholeNumber(1) },
    { flags: "--storage <name>", about: "a storage that it must reach" },
    { flags: "--bridge <name>", about: "a bridge that it must reach" },
    { flags: "--strategy <name>", about: "how a node is found", choices: STRATEGY_NAMES },
    { flags: "--topology-key <label>", about: "what ha-spread spreads over (topology.gpve.io/zone)" },
    { flags: "--max-skew <count>", about: "how uneven ha-spread may become", parse: wholeNumber(1) },
    {
      flags: "--utilization-threshold <percent>",
      about: "how full utilization fills a node",
      parse: wholeNumber(1, 100),
    },
    { flags: "--max-hops <count>", about: "how far latency may go from --near", parse: wholeNumber(0) },
    { flags: "--node-selector <labels>", about: "labels that the node must have: disk=ssd", many: true },
    { flags: "--apart-from <labels>", about: "guests that must not be on the same node: app=web" },
    { flags: "--near <labels>", about: "guests to be near to" },
    { flags: "--gpus <count>", about: "GPUs", parse: wholeNumber(1) },
    { flags: "--gpu-type <model>", about: "a part of the GPU's model" },
    { flags: "--tenant <name>", about: "whose it would be" },
    { flags: "--label <key=value>", about: "a label that it would have", many: true },
    { flags: "--count <number>", about: "so many alike (1)", parse: wholeNumber(1, 1000) },
  ],
  examples: [
    "simulate place --cores 4 --memory 8192",
    "simulate place --count 20 --strategy ha-spread --storage shared --disk 32",
    "simulate place --label app=web --apart-from app=web --count 3",
  ],
  doing: () => "simulate a placement",
  run: async (cli, input) => {
    const storage = input.text("storage");
    const memory = input.number("memory");
    const disk = input.number("disk") ?? 0;
    if (disk > 0 && storage === undefined)
      throw new AppError("request.invalid", "--disk needs --storage: where the room is needed");
    const [apart, bridge, selectors] = [
      input.text("apartFrom"),
      input.text("bridge"),
      input.texts("nodeSelector"),
    ];
    const body = {
      ...given({
        kind: input.text("kind"),
        count: input.number("count"),
        cpu: input.number("cores"),
        tenant: input.text("tenant"),
      }),
      ...(memory === undefined ? {} : { memoryBytes: memory * 1024 ** 2 }),
      ...(storage === undefined ? {} : { storage: { [storage]: disk * 1024 ** 3 } }),
      ...(bridge === undefined ? {} : { bridges: [bridge] }),
      labels: Object.fromEntries(input.texts("label").map(labelOf)),
      scheduling: {
        ...given({
          strategy: input.text("strategy"),
          near: input.text("near"),
          topologyKey: input.text("topologyKey"),
          maxSkew: input.number("maxSkew"),
          utilizationThreshold: input.number("utilizationThreshold"),
          maxHops: input.number("maxHops"),
          gpuCount: input.number("gpus"),
          gpuType: input.text("gpuType"),
        }),
        ...(selectors.length === 0 ? {} : { nodeAffinity: { required: [selectors.join(",")] } }),
        ...(apart === undefined ? {} : { antiAffinity: { required: [{ guests: apart }] } }),
      },
    };
    const answer = (await (await cli.client()).v1.post("simulate/place", body)) as Answer;
    if (!cli.out.forPeople) cli.out.data(answer);
    else {
      if (answer.placed.length > 1)
        cli.out.text(
          `${cli.out.table(
            [...answer.placed],
            [
              { header: "GUEST", field: "id" },
              { header: "NODE", field: "node" },
            ],
          )}\n`,
        );
      cli.out.text(verdictTable(cli, answer.explanation));
    }
    const count = input.number("count") ?? 1;
    if (!answer.fits)
      throw new AppError(
        "capacity.exceeded",
        `${answer.placed.length} of ${count} would be placed; no node can take the next`,
        {
          data: { next: "The table says what speaks against each node." },
        },
      );
    cli.out.done(
      count === 1 ? `It would go to ${answer.placed[0]?.node ?? ""}.` : `All ${count} would be placed.`,
    );
  },
};

function labelOf(text: string): readonly [string, string] {
  const [, key = "", value = ""] = /^([^=]+)=(.*)$/.exec(text) ?? [];
  if (key === "") throw new AppError("request.invalid", `--label ${text} is not KEY=VALUE`);
  return [key, value];
}

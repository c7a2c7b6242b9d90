import type { CommandSpec } from "../../command.ts";
import { explaining, fileOf, fileOption, openFolder } from "./around.ts";
import { printFindings, runPreflight } from "./preflight.ts";

export const talosPlan: CommandSpec = {
  name: "talos plan",
  summary: "show what would be done to the platform, touching nothing",
  details:
    "Machines of the file against those that are there; ours are known by tag and identity. It covers images and machines; what happens inside them is not planned yet. Ends with 1 when preflight finds something that would fail.",
  options: [
    fileOption,
    { flags: "--detailed-exitcode", about: "end with 2 when there is something to do" },
    { flags: "--print-commands", about: "print the commands that would do it on a Proxmox host" },
  ],
  examples: ["talos plan", "talos plan --print-commands", "talos plan --output json"],
  doing: (input) => `plan ${fileOf(input)}`,
  run: (cli, input) =>
    explaining(cli, async () => {
      const place = await openFolder(cli, input);
      const [{ makePlan }, { stepCommand, stepText }] = await Promise.all([
        import("@gpve/talos/plan/make-plan.ts"),
        import("@gpve/talos/plan/step-text.ts"),
      ]);
      const checked = await runPreflight(cli, place);
      const plan = makePlan(place.cluster, place.machines, checked.observed);
      const findings = [...checked.findings, ...plan.findings];
      const isFine = !findings.some(({ severity }) => severity === "error");
      if (!cli.out.forPeople) cli.out.data({ ok: isFine, findings, steps: plan.steps });
      else if (input.flag("printCommands")) for (const step of plan.steps) cli.out.line(stepCommand(step));
      else {
        const { green, red, yellow } = cli.out.colours;
        const colour = { safe: green, disruptive: yellow, destructive: red } as const;
        for (const step of plan.steps) cli.out.line(colour[step.impact](stepText(step)));
        printFindings(cli, findings);
        const of = (kind: string) => plan.steps.filter((step) => step.kind === kind).length;
        cli.out.done(
          plan.steps.length === 0
            ? "Nothing to do."
            : `Plan: ${of("guest.create")} to create, ${of("guest.change")} to change, ${of("guest.delete")} to delete.`,
        );
      }
      if (!isFine) return 1;
      return input.flag("detailedExitcode") && plan.steps.length > 0 ? 2 : 0;
    }),
};

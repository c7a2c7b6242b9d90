import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { plainText } from "../../output/cell.ts";
import type { CommandSpec } from "../../command.ts";

export const auditVerify: CommandSpec = {
  name: "audit verify",
  summary: "check that nobody changed, removed or added audit entries",
  details: "The exit code is 0 only when the chain of entries is unbroken.",
  doing: () => "vouch for the audit log",
  run: async (cli) => {
    const { v1 } = await cli.client();
    const verdict = await v1.raw("GET", "audit/verify");
    const { ok, entries, issues } = isObject(verdict) ? verdict : {};
    if (!cli.out.forPeople) cli.out.data(verdict);
    const found = Array.isArray(issues) ? (issues as readonly unknown[]) : [];
    if (ok === true) {
      cli.out.done(`The audit log is whole: ${plainText(entries)} entries in one unbroken chain.`);
      return;
    }
    if (cli.out.forPeople) {
      cli.out.rows(
        found,
        [
          { header: "KIND", field: "kind" },
          { header: "FILE", field: "file" },
          { header: "LINE", field: "line" },
          { header: "DETAIL", field: "detail" },
        ],
        "",
      );
    }
    throw new AppError("operation.failed", `it was tampered with or damaged (${found.length} findings)`, {
      data: { next: "Compare with a copy of the log that is kept elsewhere." },
    });
  },
};

// Asks both faces for the same thing as the same user, and says where they do not agree.
import type { Request, Scenario } from "./permission-requests.ts";
import { isRefused } from "./permission-scenarios.ts";
import type { TwoFaces } from "./two-faces.ts";

export interface Asker {
  readonly authid: string;
  /** Whether he has a privilege where a scenario is about it. */
  readonly holds: (privilege: string, scenario: Scenario) => boolean;
}

/** PVE's words where it does not answer with 403. */
const REFUSALS = /only root can set|missing privileges to access|requires 'Permissions.Modify' or superset/;

export class FaceComparison {
  readonly #faces: TwoFaces;
  combinations = 0;
  /** How often each was let through, and refused, by /api2. */
  readonly outcomes = new Map<string, { through: number; refused: number }>();

  constructor(faces: TwoFaces) {
    this.#faces = faces;
  }

  async refused(as: string, request: Request): Promise<boolean> {
    const answer = await this.#faces.ask(as, request.method, request.path, request.body);
    let no = isRefused(request, answer) || REFUSALS.test(answer.text);
    if (!no && (answer.status === 500 || answer.status === 501))
      throw new Error(`${as} ${request.method} ${request.path}: ${answer.text}`);
    if (request.path === "/api/v1/plan") no ||= answer.text.includes('"access.denied"');
    if (request.path === "/api/v1/apply" && answer.status === 202) {
      const { task } = JSON.parse(answer.text) as { task: string };
      no = /permission/i.test(await this.#faces.ended(task));
    }
    if (request.method !== "GET" && !no) await this.#faces.reset();
    return no;
  }

  /** Empty = both say the same. */
  async differences(scenario: Scenario, who: readonly Asker[]): Promise<string[]> {
    const found: string[] = [];
    for (const { authid, holds } of who) {
      this.combinations += 1;
      const byV1 = await this.refused(authid, scenario.v1);
      let byApi2 = false;
      for (const request of scenario.api2) byApi2 ||= await this.refused(authid, request);
      const outcome = this.outcomes.get(authid) ?? { through: 0, refused: 0 };
      outcome[byApi2 ? "refused" : "through"] += 1;
      this.outcomes.set(authid, outcome);
      if (byApi2 && !byV1) found.push(`${authid}: only /api2 refuses`);
      const excused = (scenario.v1Needs ?? []).some((each) => !holds(each, scenario));
      if (byV1 && !byApi2 && !excused) found.push(`${authid}: only /api/v1 refuses`);
    }
    return found;
  }
}

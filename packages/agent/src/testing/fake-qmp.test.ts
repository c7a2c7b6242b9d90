import { describe } from "vitest";
import { FakeQmp, Refused } from "./fake-qmp.ts";
import { qmpConformance } from "./qmp-conformance.ts";

describe("made-up monitors", () => {
  qmpConformance(async () => {
    const qmp = new FakeQmp("VM 100", new Map());
    return {
      qmp,
      answer: (command, answer) =>
        void qmp.answers.set(command, () => {
          if (answer === "nothing") return new Promise(() => undefined);
          if ("refusal" in answer) throw new Refused(answer.refusal);
          return answer.result;
        }),
      event: (name, data) => qmp.emit(name, data),
      end: async () => qmp.end(),
      close: async () => qmp.end(),
    };
  });
});

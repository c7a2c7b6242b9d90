// How one replica's etcd becomes, and stays, a member of the cluster's store: what to do next, from what is seen. Whoever
// joins does all of it, one thing at a time: out with those that were replaced, then in as a learner, which has no vote and so
// cannot cost the others their majority, then a vote when it has what they have.

/** As etcd tells it. */
export interface EtcdMember {
  readonly id: string;
  /** "" = it has been announced, and has never started. */
  readonly name: string;
  readonly peerUrls: readonly string[];
  readonly isLearner: boolean;
}

export interface MemberView {
  /** Its own peer URL. */
  readonly own: string;
  /** Its own name. */
  readonly name: string;
  /** Peer URLs of all that there shall be, itself too. */
  readonly wanted: readonly string[];
  /** It has run before, and has what it had then. */
  readonly hasData: boolean;
  /** It is the first of a new store. */
  readonly isFirst: boolean;
  /** Its process has been started. */
  readonly runs: boolean;
  /** undefined = none of them answers. */
  readonly members: readonly EtcdMember[] | undefined;
}

export type MemberStep =
  | { readonly do: "start"; readonly initialCluster?: string }
  | { readonly do: "remove"; readonly id: string; readonly why: string }
  | { readonly do: "add" }
  | { readonly do: "promote"; readonly id: string }
  | { readonly do: "wait"; readonly why: string }
  | { readonly do: "done" };

export function nextMemberStep(view: MemberView): MemberStep {
  const { hasData, isFirst, runs, members } = view;
  if (!runs && (hasData || isFirst)) return { do: "start" };
  if (members === undefined) return { do: "wait", why: "no member of its store answers" };
  return runs ? nextOfRunning(view, members) : nextOfNew(view, members);
}

function nextOfRunning({ own }: MemberView, members: readonly EtcdMember[]): MemberStep {
  const self = members.find(({ peerUrls }) => peerUrls.includes(own));
  if (self === undefined) return { do: "wait", why: "the others do not have it among them" };
  return self.isLearner ? { do: "promote", id: self.id } : { do: "done" };
}

function nextOfNew({ own, name, wanted }: MemberView, members: readonly EtcdMember[]): MemberStep {
  const replaced = members.find(({ peerUrls }) => !peerUrls.some((url) => wanted.includes(url)));
  if (replaced !== undefined)
    return { do: "remove", id: replaced.id, why: `${replaced.name || "a member"} was replaced` };
  const self = members.find(({ peerUrls }) => peerUrls.includes(own));
  if (self === undefined) {
    const joining = members.find(({ isLearner }) => isLearner);
    if (joining === undefined) return { do: "add" };
    return { do: "wait", why: `${joining.name || "another member"} is joining, and they join one by one` };
  }
  // Its place is kept for whoever has what it had; that is nobody.
  if (self.name !== "") return { do: "remove", id: self.id, why: "it has lost what it had" };
  const all = members.map((each) => `${each === self ? name : each.name}=${each.peerUrls[0] ?? ""}`);
  return { do: "start", initialCluster: all.join(",") };
}

// Tree of a monitor's targets: those of a group stand below its name.

export interface Placed {
  /** Names of groups, the outer ones first, with strokes between them. */
  group: string | null;
}

export interface Line<T> {
  /** Number of groups around it. */
  depth: number;
  /** Name of a group. A line without a name is a target. */
  group: string | null;
  /** Targets of the group and of those inside it, or the one target. */
  targets: T[];
}

interface Node<T> {
  own: T[];
  inside: Map<string, Node<T>>;
}

/** Lines of the tree: groups and targets in the order in which they were given, a group's own targets before the groups inside it. */
export function lines<T extends Placed>(targets: T[]): Line<T>[] {
  const root: Node<T> = { own: [], inside: new Map() };
  for (const t of targets) {
    let node = root;
    for (const name of t.group ? t.group.split("/") : []) {
      const next = node.inside.get(name) ?? { own: [], inside: new Map() };
      node.inside.set(name, next);
      node = next;
    }
    node.own.push(t);
  }
  const all = (node: Node<T>): T[] => [...node.own, ...[...node.inside.values()].flatMap(all)];
  const of = (node: Node<T>, depth: number): Line<T>[] => [
    ...node.own.map((t) => ({ depth, group: null, targets: [t] })),
    ...[...node.inside].flatMap(([group, inner]) => [{ depth, group, targets: all(inner) }, ...of(inner, depth + 1)]),
  ];
  return of(root, 0);
}

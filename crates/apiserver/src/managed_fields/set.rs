//! Sets of fields, as trees of path elements, and the operations on them.
//!
//! A path in a set does not imply that its parents or children are in the set.

use std::cmp::Ordering;

use crate::merge_schema::PathElement;

/// A set of paths. Both lists are ordered and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The paths of one step.
    members: Vec<PathElement>,
    /// The longer paths, by their first step.
    children: Vec<(PathElement, Set)>,
}

impl Set {
    /// A set of paths through named fields only.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<PathElement> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    /// A set of parts in any order, of which equal ones are merged.
    pub(super) fn of_parts(members: Vec<PathElement>, children: Vec<(PathElement, Self)>) -> Self {
        let mut set = Self { members, children: Vec::with_capacity(children.len()) };
        set.members.sort_unstable();
        set.members.dedup();
        let mut children = children;
        children.sort_by(by_element);
        for (element, below) in children {
            match set.children.last_mut() {
                Some((last, known)) if *last == element => known.add_all(below),
                _ => set.children.push((element, below)),
            }
        }
        set
    }

    /// The paths of one step.
    pub(super) fn members(&self) -> &[PathElement] {
        &self.members
    }

    /// The longer paths, by their first step.
    pub(super) fn children(&self) -> &[(PathElement, Self)] {
        &self.children
    }

    /// Adds a path. An empty path is the whole object, which nobody owns.
    pub(crate) fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.insert_member(last.clone()),
            [first, rest @ ..] => {
                let index = match self.children.binary_search_by(|(other, _)| other.cmp(first)) {
                    Ok(index) => index,
                    Err(index) => {
                        self.children.insert(index, (first.clone(), Self::default()));
                        index
                    }
                };
                self.children[index].1.insert(rest);
            }
        }
    }

    /// Adds a path of one step.
    pub(super) fn insert_member(&mut self, element: PathElement) {
        if let Err(index) = self.members.binary_search(&element) {
            self.members.insert(index, element);
        }
    }

    /// Adds all paths below an element. An empty set adds nothing.
    pub(super) fn insert_children(&mut self, element: PathElement, set: Self) {
        if set.is_empty() {
            return;
        }
        match self.children.binary_search_by(|(other, _)| other.cmp(&element)) {
            Ok(index) => self.children[index].1.add_all(set),
            Err(index) => self.children.insert(index, (element, set)),
        }
    }

    /// True if the set contains no path.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.iter().all(|(_, set)| set.is_empty())
    }

    /// True if a path is in the set.
    #[cfg(test)]
    pub(crate) fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has_member(last),
            [first, rest @ ..] => self.below(first).is_some_and(|set| set.contains(rest)),
        }
    }

    /// True if a path of one step is in the set.
    pub(super) fn has_member(&self, element: &PathElement) -> bool {
        self.members.binary_search(element).is_ok()
    }

    /// The paths below an element, without it; `None` if there are none.
    pub(super) fn below(&self, element: &PathElement) -> Option<&Self> {
        let index = self.children.binary_search_by(|(other, _)| other.cmp(element)).ok()?;
        Some(&self.children[index].1).filter(|set| !set.is_empty())
    }

    /// The paths in either set.
    pub fn union(mut self, other: Self) -> Self {
        self.add_all(other);
        self
    }

    /// Adds the paths of another set.
    pub(super) fn add_all(&mut self, other: Self) {
        if self.members.is_empty() && self.children.is_empty() {
            *self = other;
        } else if !(other.members.is_empty() && other.children.is_empty()) {
            *self = self.merged(&other);
        }
    }

    fn merged(&self, other: &Self) -> Self {
        let mut members = Vec::with_capacity(self.members.len().max(other.members.len()));
        zip(&self.members, &other.members, Ord::cmp, |one, other| {
            members.extend(one.or(other).cloned());
        });
        let mut children = Vec::with_capacity(self.children.len().max(other.children.len()));
        zip(&self.children, &other.children, by_element, |one, other| match (one, other) {
            (Some((element, one)), Some((_, other))) => {
                children.push((element.clone(), one.merged(other)));
            }
            (one, other) => children.extend(one.or(other).cloned()),
        });
        Self { members, children }
    }

    /// The paths in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut common = Self::default();
        zip(&self.members, &other.members, Ord::cmp, |one, other| {
            common.members.extend(one.and(other).cloned());
        });
        zip(&self.children, &other.children, by_element, |one, other| {
            if let (Some((element, one)), Some((_, other))) = (one, other) {
                common.push_children(element, one.intersection(other));
            }
        });
        common
    }

    /// The paths in this set that are not in the other.
    pub fn difference(mut self, other: &Self) -> Self {
        self.remove(other, false);
        self
    }

    /// Removes the paths of another set.
    pub(super) fn remove_all(&mut self, other: &Self) {
        self.remove(other, false);
    }

    /// Removes the paths of another set, and maybe all that are below them.
    fn remove(&mut self, other: &Self, with_children: bool) {
        self.members.retain(|element| !other.has_member(element));
        self.children.retain_mut(|(element, set)| {
            !(with_children && other.has_member(element))
                && other.below(element).is_none_or(|below| {
                    set.remove(below, with_children);
                    !set.is_empty()
                })
        });
    }

    /// The paths in this set such that neither they nor one of their parents are in the other.
    pub(crate) fn recursive_difference(mut self, other: &Self) -> Self {
        self.remove(other, true);
        self
    }

    /// The paths in this set at, above and below these, in which `*` is any element.
    pub(super) fn only(&self, paths: &[&[&str]]) -> Self {
        // The rests of the paths that begin with an element; `None` if one of them ends there.
        let rests = |element: &PathElement| -> Option<Vec<&[&str]>> {
            let fits = |name: &str| name == "*" || *element == PathElement::field(name);
            let begins = paths.iter().filter(|path| fits(path[0]));
            begins.map(|path| Some(&path[1..]).filter(|rest| !rest.is_empty())).collect()
        };
        let is_wanted = |element: &&PathElement| rests(element).is_none_or(|it| !it.is_empty());
        let mut wanted = Self {
            members: self.members.iter().filter(is_wanted).cloned().collect(),
            children: Vec::new(),
        };
        for (element, below) in &self.children {
            match rests(element) {
                None => wanted.push_children(element, below.clone()),
                Some(rests) if rests.is_empty() => {}
                Some(rests) => wanted.push_children(element, below.only(&rests)),
            }
        }
        wanted
    }

    /// Calls `visit` with each path: first those of one step, then those below each element.
    pub(crate) fn for_each(&self, visit: &mut impl FnMut(&[PathElement])) {
        self.for_each_below(&mut Vec::new(), visit);
    }

    fn for_each_below(
        &self,
        prefix: &mut Vec<PathElement>,
        visit: &mut impl FnMut(&[PathElement]),
    ) {
        for member in &self.members {
            prefix.push(member.clone());
            visit(prefix);
            prefix.pop();
        }
        for (element, set) in &self.children {
            prefix.push(element.clone());
            set.for_each_below(prefix, visit);
            prefix.pop();
        }
    }

    fn push_children(&mut self, element: &PathElement, set: Self) {
        if !set.is_empty() {
            self.children.push((element.clone(), set));
        }
    }
}

fn by_element(one: &(PathElement, Set), other: &(PathElement, Set)) -> Ordering {
    one.0.cmp(&other.0)
}

/// Visits the elements of two ordered lists in order, equal elements together.
fn zip<'a, T>(
    one: &'a [T],
    other: &'a [T],
    compare: impl Fn(&T, &T) -> Ordering,
    mut visit: impl FnMut(Option<&'a T>, Option<&'a T>),
) {
    let (mut one, mut other) = (one, other);
    loop {
        let order = match (one, other) {
            ([], []) => return,
            ([_, ..], []) => Ordering::Less,
            ([], [_, ..]) => Ordering::Greater,
            ([first, ..], [second, ..]) => compare(first, second),
        };
        let takes_one = order != Ordering::Greater;
        let takes_other = order != Ordering::Less;
        visit(one.first().filter(|_| takes_one), other.first().filter(|_| takes_other));
        one = &one[usize::from(takes_one)..];
        other = &other[usize::from(takes_other)..];
    }
}
